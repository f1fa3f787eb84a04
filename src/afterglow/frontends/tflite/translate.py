"""From the records of a TFLite file to a definition: ops to nodes, subgraphs to bodies.

Subgraphs are put in the place of what calls them, each time under other names. Resource variables
and variable tensors are state: followed through the ops in their order, so that in the definition
each op takes the value that its variable has by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial

from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    DeclaredExtent,
    GraphDef,
    ModelDef,
    NodeDef,
    TensorDef,
    TypeDef,
    ValueDef,
)
from afterglow.frontends.tflite.elements import find_dtype
from afterglow.frontends.tflite.node import OPERAND_TYPES, RESULT_TYPES, quantization_attributes
from afterglow.frontends.tflite.reader import (
    FileRecord,
    OperatorRecord,
    SubgraphRecord,
    TensorRecord,
)
from afterglow.frontends.tflite.registry import INTERNAL, TFLITE
from afterglow.frontends.tflite.tensors import tensor_array
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.names import NameScope

MOST_NODES = 100_000
"""Nodes that a file may have, with subgraphs counted each time that they are called."""

MOST_NESTED = 32
"""Subgraphs in subgraphs, at most."""

VARIABLE_INPUTS: Mapping[str, tuple[int, ...]] = {
    "LSTM": (18, 19),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (35, 36, 37, 38),
    "RNN": (4,),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (4,),
    "BIDIRECTIONAL_SEQUENCE_RNN": (4, 8),
    "SVDF": (4,),
}
"""The operands that an op changes in place: their new values are further results of its node."""


_HANDLE = "\0variable "
"""What a tensor that stands for a resource variable is called: this, and the variable's name."""

_CALLS: Mapping[str, str] = {
    "CALL": "subgraph",
    "STABLEHLO_COMPOSITE": "decomposition_subgraph_index",
}
"""Ops that are what a subgraph computes, and the option that has its number."""


@dataclass
class _Graph:
    """A graph being translated: the main one, or a body."""

    outer: _Graph | None = None
    nodes: list[NodeDef] = field(default_factory=list)
    constants: list[TensorDef] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """By its key, what the value of a variable is called by now."""

    def variable(self, key: str) -> str | None:
        """What the value of a variable is called; None if nothing has read or written it."""
        found = self.variables.get(key)
        return found if found or self.outer is None else self.outer.variable(key)


def translate_file(file: FileRecord) -> ModelDef:
    """The definition of a file: its first subgraph, with those that it calls."""
    return _Translator(file).run()


class _Translator:
    def __init__(self, file: FileRecord) -> None:
        self.file = file
        self.names = NameScope()
        self.count = 0
        self.main = _Graph()
        self.initial: dict[str, str] = {}
        """By its key, what the first value of a resource variable is called."""
        self.states: dict[str, tuple[str, ...]] = {}
        """By its key, the state of a variable and its first value, as `STORE` takes them."""

    def run(self) -> ModelDef:
        main = self.file.subgraphs[0]
        inputs, outputs = self._boundary_names(main)
        names = {i: inputs[k] for k, i in reversed([*enumerate(main.inputs)])}
        given = {i: outputs[k] for k, i in reversed([*enumerate(main.outputs)])}
        subgraph = _Subgraph(self, 0, (), self.main)
        subgraph.translate(names, given)
        for wanted, index in zip(outputs, main.outputs, strict=True):
            if subgraph.name(index) != wanted:
                self.main.nodes.append(_identity(subgraph.name(index), wanted))
        self._store_variables()
        graph = GraphDef(
            main.name or "main",
            tuple(self.main.nodes),
            _values(main, main.inputs, inputs),
            _values(main, main.outputs, outputs),
            tuple(self.main.constants),
        )
        return ModelDef(TFLITE, graph, opset_import=(("", 1),))

    def _boundary_names(self, main: SubgraphRecord) -> tuple[list[str], list[str]]:
        """What inputs and outputs are called: by a signature, else as their tensors are."""
        signatures = (each for each in self.file.signatures if each.subgraph == 0)
        signature = next(signatures, None)
        inputs = {} if signature is None else signature.inputs
        outputs = {} if signature is None else signature.outputs
        return (
            [self.claim(inputs.get(i) or main.tensors[i].name, f"input_{i}") for i in main.inputs],
            [
                self.claim(outputs.get(i) or main.tensors[i].name, f"output_{i}")
                for i in main.outputs
            ],
        )

    def _store_variables(self) -> None:
        """Let each variable that was read and written keep its last value."""
        for key, (state, *initial) in self.states.items():
            last = self.main.variables[key]
            node = NodeDef("STORE", INTERNAL, f"variable {key}", (last, state, *initial), ())
            self.main.nodes.append(node)

    def read_variable(self, graph: _Graph, key: str, tensor: TensorRecord) -> str:
        """What the value of a variable is called, which begins as state of the model."""
        found = graph.variable(key)
        if found is not None:
            return found
        value, state = self.claim(key, "variable"), self.claim(f"{key}.state", "state")
        initial = self.initial.get(key)
        given = () if initial is None else (initial,)
        attributes = {
            "shape": AttributeDef(AttributeKind.INTS, tensor.shape),
            "type": AttributeDef(AttributeKind.STRING, tensor.type),
        }
        name = f"variable {key}"
        node = NodeDef("VARIABLE", INTERNAL, name, given, (value, state), attributes)
        self.main.nodes.append(node)
        self.main.variables[key] = value
        self.states[key] = (state, *given)
        return value

    def claim(self, name: str, default: str) -> str:
        """A name that no other value has."""
        return self.names.claim(name or default)

    def count_nodes(self, more: int) -> None:
        """Note that so many ops are translated."""
        self.count += more
        if self.count > MOST_NODES:
            raise UnsupportedError(f"the model unfolds into more than {MOST_NODES:,} nodes")


def _identity(source: str, name: str) -> NodeDef:
    return NodeDef("IDENTITY", INTERNAL, name, (source,), (name,))


def _values(
    graph: SubgraphRecord, indices: Sequence[int], names: Sequence[str]
) -> tuple[ValueDef, ...]:
    return tuple(
        ValueDef(name, _type(graph.tensors[index]))
        for index, name in zip(indices, names, strict=True)
    )


def _type(tensor: TensorRecord) -> TypeDef:
    dtype = find_dtype(tensor.type)
    if dtype is None:
        raise UnsupportedError(f"{tensor.what} is {tensor.type}, models take and give tensors")
    shape: tuple[DeclaredExtent, ...] = tuple(e if e >= 0 else None for e in tensor.signature)
    return TypeDef("tensor", dtype, shape)


class _Subgraph:
    """One subgraph in one place; `path` has the numbers of those around it."""

    def __init__(
        self,
        owner: _Translator,
        number: int,
        path: tuple[int, ...],
        graph: _Graph,
        *,
        once: bool = False,
    ) -> None:
        if not 0 <= number < len(owner.file.subgraphs):
            count = len(owner.file.subgraphs)
            raise ModelError(f"an op calls subgraph {number:,}, there are {count:,}")
        if number in path:
            raise ModelError(f"subgraph {number} calls itself")
        if len(path) >= MOST_NESTED:
            raise UnsupportedError(f"subgraphs are nested more than {MOST_NESTED} deep")
        self.owner = owner
        self.number = number
        self.path = (*path, number)
        self.graph = graph
        self.once = once
        self.record = owner.file.subgraphs[number]
        self.names: dict[int, str] = {}
        self.output_names: dict[int, str] = {}

    def translate(self, inputs: Mapping[int, str], outputs: Mapping[int, str]) -> None:
        """Add its nodes and constants; `outputs` are names for those that something computes."""
        self.owner.count_nodes(1 + len(self.record.operators))
        self.names.update(inputs)
        self.output_names = {i: name for i, name in outputs.items() if i not in self.names}
        self._add_constants({i for op in self.record.operators for i in op.outputs})
        for index, op in enumerate(self.record.operators):
            self._operator(index, op)

    def called(self, inputs: Sequence[str]) -> list[str]:
        """The same for these values; return what its outputs are called."""
        expected = len(self.record.inputs)
        if len(inputs) != expected:
            raise ModelError(
                f"subgraph {self.number} takes {expected} inputs, it is given {len(inputs)}"
            )
        self.translate(dict(zip(self.record.inputs, inputs, strict=True)), {})
        return [self.name(index) for index in self.record.outputs]

    def _add_constants(self, produced: set[int]) -> None:
        """Note the tensors that have their elements in the file, where something may read them."""
        for index, tensor in enumerate(self.record.tensors):
            if index in self.names or index in produced or tensor.is_variable:
                continue
            data = self.owner.file.buffers[tensor.buffer] if tensor.buffer else memoryview(b"")
            if not data and 0 not in tensor.shape:
                continue
            read = partial(tensor_array, tensor, data)
            place = f"{self.number}:{index}"
            self.graph.constants.append(TensorDef(self.name(index), read, place))

    def name(self, index: int) -> str:
        """What a tensor is called."""
        if index < 0:
            return ""
        if index not in self.names:
            tensor = self.record.tensors[index]
            requested = self.output_names.get(index)
            self.names[index] = requested or self.owner.claim(tensor.name, f"tensor_{index}")
        return self.names[index]

    def _operator(self, index: int, op: OperatorRecord) -> None:
        where = f"op {index}" if self.number == 0 else f"op {index} of subgraph {self.number}"
        first = next((i for i in op.outputs if i >= 0), None)
        label = op.op_type if first is None else self.record.tensors[first].name
        name = f"{where}, {label}"
        try:
            match op.op_type:
                case "VAR_HANDLE" | "READ_VARIABLE" | "ASSIGN_VARIABLE" if not op.domain:
                    self._variable(op)
                case "CALL_ONCE" if not op.domain:
                    number = _option(op, "init_subgraph_index")
                    self._inner(number, self.graph, once=True).called(())
                case "CALL" | "STABLEHLO_COMPOSITE" if not op.domain:
                    self._call(op)
                case "IF" if not op.domain:
                    self._branches(op, name)
                case "WHILE" if not op.domain:
                    self._loop(op, name)
                case _:
                    self._add(op, name)
        except AfterglowError as error:
            if not error.where:
                error.where = f"in node {name!r} ({op.op_type})"
            raise

    def _inner(self, number: int, graph: _Graph, *, once: bool = False) -> _Subgraph:
        return _Subgraph(self.owner, number, self.path, graph, once=once)

    def _add(self, op: OperatorRecord, name: str) -> None:
        """An op as a node, with the variables that it changes as further results."""
        changed = {
            number: self._variable_tensor(op.inputs[number])
            for number in VARIABLE_INPUTS.get(op.op_type, ())
            if number < len(op.inputs) and op.inputs[number] >= 0
        }
        inputs = tuple(changed.get(k) or self.name(i) for k, i in enumerate(op.inputs))
        outputs = tuple(map(self.name, op.outputs))
        for number in changed:
            key = self._key(op.inputs[number])
            self.graph.variables[key] = self.owner.claim(key, "variable")
            outputs = (*outputs, self.graph.variables[key])
        attributes = {**op.options, **self._tensor_attributes(op)}
        self.graph.nodes.append(NodeDef(op.op_type, op.domain, name, inputs, outputs, attributes))

    def _key(self, index: int) -> str:
        return self.record.tensors[index].name or f"tensor_{index}"

    def _variable_tensor(self, index: int) -> str:
        """The value of a variable tensor before the op that changes it."""
        tensor = self.record.tensors[index]
        if not tensor.is_variable:
            raise ModelError(f"{tensor.what} is changed by the op, but is no variable")
        if self.graph is not self.owner.main:
            raise UnsupportedError("ops with state are not supported in bodies of IF and WHILE")
        return self.owner.read_variable(self.graph, self._key(index), tensor)

    def _variable(self, op: OperatorRecord) -> None:
        """What reads or writes a resource variable: no node, only names."""
        if op.op_type == "VAR_HANDLE":
            for index in op.outputs[:1]:
                shared = op.options["shared_name"].value if "shared_name" in op.options else ""
                self.names[index] = _HANDLE + shared
            return
        if not op.inputs or not self.name(op.inputs[0]).startswith(_HANDLE):
            raise ModelError("its first input is no variable")
        key = self.name(op.inputs[0]).removeprefix(_HANDLE) or "variable"
        if op.op_type == "READ_VARIABLE" and op.outputs:
            tensor = self.record.tensors[op.outputs[0]]
            value = self.owner.read_variable(self.graph, key, tensor)
            requested = self.output_names.get(op.outputs[0])
            if requested:
                self.graph.nodes.append(_identity(value, requested))
            self.names[op.outputs[0]] = requested or value
        elif len(op.inputs) > 1:
            self._assign(key, self.name(op.inputs[1]))

    def _assign(self, key: str, value: str) -> None:
        if self.once:
            self.owner.initial[key] = value
        elif self.graph is not self.owner.main:
            raise UnsupportedError("variables are not assigned in bodies of IF and WHILE")
        else:
            self.graph.variables[key] = value

    def _call(self, op: OperatorRecord) -> None:
        """What a subgraph computes, in the place of the op."""
        inner = self._inner(_option(op, _CALLS[op.op_type]), self.graph, once=self.once)
        results = inner.called([self.name(i) for i in op.inputs])
        self._take(op, results)

    def _take(self, op: OperatorRecord, results: Sequence[str]) -> None:
        """Have the outputs of an op be these values."""
        if len(results) < len(op.outputs):
            raise ModelError(f"it has {len(op.outputs)} outputs, its subgraph {len(results)}")
        for index, value in zip(op.outputs, results, strict=False):
            requested = self.output_names.get(index)
            if requested:
                self.graph.nodes.append(_identity(value, requested))
            self.names[index] = requested or value

    def _branches(self, op: OperatorRecord, name: str) -> None:
        """Both branches as graphs that take what they need from around them."""
        inputs = [self.name(index) for index in op.inputs]
        if not inputs:
            raise ModelError("it has no condition")
        graphs = {}
        for branch in ("then", "else"):
            body = _Graph(self.graph)
            inner = self._inner(_option(op, f"{branch}_subgraph_index"), body)
            returned = inner.called(inputs[1:])[: len(op.outputs)]
            graphs[f"{branch}_branch"] = _body(branch, body, (), returned)
        outputs = tuple(map(self.name, op.outputs))
        self.graph.nodes.append(NodeDef("IF", "", name, (inputs[0],), outputs, graphs))

    def _loop(self, op: OperatorRecord, name: str) -> None:
        """The condition once before the loop, and again at the end of its body."""
        inputs = [self.name(index) for index in op.inputs]
        numbers = [_option(op, f"{part}_subgraph_index") for part in ("cond", "body")]
        (goes_on,) = _one(self._inner(numbers[0], self.graph).called(inputs))
        body = _Graph(self.graph)
        counted = [self.owner.claim(each, each) for each in ("iteration", "condition")]
        inside = [self.owner.claim(f"{each}.inside", "inside") for each in inputs]
        after = self._inner(numbers[1], body).called(inside)
        (checked,) = _one(self._inner(numbers[0], body).called(after))
        again = self.owner.claim("again", "again")
        body.nodes.append(NodeDef("SCALAR", INTERNAL, again, (checked,), (again,)))
        graph = _body("body", body, (*counted, *inside), (again, *after))
        outputs = tuple(map(self.name, op.outputs))
        self.graph.nodes.append(
            NodeDef("WHILE", "", name, ("", goes_on, *inputs), outputs, {"body": graph})
        )

    def _tensor_attributes(self, op: OperatorRecord) -> dict[str, AttributeDef]:
        """What the file says about operands and results."""
        found: dict[str, AttributeDef] = {}
        for letter, indices in (("x", op.inputs), ("y", op.outputs)):
            for number, index in enumerate(indices):
                if index >= 0:
                    tensor = self.record.tensors[index]
                    found |= quantization_attributes(f"{letter}{number}", tensor.quantization)
        for name, indices in ((OPERAND_TYPES, op.inputs), (RESULT_TYPES, op.outputs)):
            names = tuple(map(self._type_name, indices))
            found[name] = AttributeDef(AttributeKind.STRINGS, names)
        return found

    def _type_name(self, index: int) -> str:
        dtype = find_dtype(self.record.tensors[index].type) if index >= 0 else None
        return "-" if dtype is None else dtype.name


def _option(op: OperatorRecord, name: str) -> int:
    found = op.options.get(name)
    if found is None or not isinstance(found.value, int):
        raise ModelError(f"it does not say which subgraph it calls: {name!r} is missing")
    return found.value


def _one(values: Sequence[str]) -> Sequence[str]:
    if len(values) != 1:
        raise ModelError(f"the subgraph of its condition has {len(values)} outputs, not 1")
    return values


def _body(name: str, graph: _Graph, inputs: Sequence[str], outputs: Sequence[str]) -> AttributeDef:
    found = GraphDef(
        name,
        tuple(graph.nodes),
        tuple(map(ValueDef, inputs)),
        tuple(map(ValueDef, outputs)),
        tuple(graph.constants),
    )
    return AttributeDef(AttributeKind.GRAPH, found)
