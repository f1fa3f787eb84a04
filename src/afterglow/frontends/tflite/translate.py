"""From the records of a TFLite file to a definition: ops to nodes, subgraphs to bodies.

Subgraphs are put in the place of what calls them, each time under other names. Resource variables
and variable tensors are state: followed through the ops in their order, so that in the definition
each op takes the value that its variable has by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from afterglow.support.errors import ModelError, UnsupportedError
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


@dataclass
class _Graph:
    """A graph being translated: the main one, or a body."""

    nodes: list[NodeDef] = field(default_factory=list)
    constants: list[TensorDef] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """By the name of a resource variable, what its value is called by now."""


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
        """By the name of a resource variable, what its first value is called."""
        self.stored: dict[str, str] = {}
        self.sizes: dict[str, TensorRecord] = {}

    def run(self) -> ModelDef:
        main = self.file.subgraphs[0]
        inputs, outputs = self._boundary_names(main)
        names = {i: inputs[k] for k, i in reversed([*enumerate(main.inputs)])}
        given = {i: outputs[k] for k, i in reversed([*enumerate(main.outputs)])}
        found = _Subgraph(self, 0, (0,), self.main).translate(names, given)
        for wanted, index in zip(outputs, main.outputs, strict=True):
            if found[index] != wanted:
                self.main.nodes.append(_identity(found[index], wanted))
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
    """One subgraph in one place."""

    def __init__(
        self, owner: _Translator, number: int, path: tuple[int, ...], graph: _Graph
    ) -> None:
        if number >= len(owner.file.subgraphs) or number < 0:
            count = len(owner.file.subgraphs)
            raise ModelError(f"an op calls subgraph {number:,}, there are {count:,}")
        if number in path[:-1]:
            raise ModelError(f"subgraph {number} calls itself")
        if len(path) > MOST_NESTED:
            raise UnsupportedError(f"subgraphs are nested more than {MOST_NESTED} deep")
        self.owner = owner
        self.number = number
        self.path = path
        self.graph = graph
        self.record = owner.file.subgraphs[number]
        self.names: dict[int, str] = {}
        self.wishes: dict[int, str] = {}
        self.handles: dict[int, str] = {}
        """By the number of a tensor, the resource variable that it stands for."""

    def translate(self, inputs: Mapping[int, str], outputs: Mapping[int, str]) -> dict[int, str]:
        """Add its nodes and constants; return what its tensors are called.

        `outputs` are wishes, for those that something in it computes.
        """
        self.owner.count_nodes(1 + len(self.record.operators))
        self.names.update(inputs)
        self.wishes = {i: name for i, name in outputs.items() if i not in self.names}
        produced = {i for op in self.record.operators for i in op.outputs}
        self._add_constants(produced)
        for index, op in enumerate(self.record.operators):
            self._operator(index, op)
        return _Named(self)

    def _add_constants(self, produced: set[int]) -> None:
        """Note the tensors that have their elements in the file, where something may read them."""
        for index, tensor in enumerate(self.record.tensors):
            if index in self.names or index in produced:
                continue
            data = self.owner.file.buffers[tensor.buffer] if tensor.buffer else None
            if tensor.is_variable or not (data or 0 in tensor.shape):
                continue
            name = self._name(index)
            read = partial(tensor_array, tensor, data if data is not None else memoryview(b""))
            place = f"{self.number}:{index}"
            self.graph.constants.append(TensorDef(name, read, place))

    def _name(self, index: int) -> str:
        """What a tensor is called."""
        if index < 0:
            return ""
        if index not in self.names:
            wished = self.wishes.get(index)
            tensor = self.record.tensors[index]
            self.names[index] = wished or self.owner.claim(tensor.name, f"tensor_{index}")
        return self.names[index]

    def _operator(self, index: int, op: OperatorRecord) -> None:
        where = f"op {index}" if self.number == 0 else f"op {index} of subgraph {self.number}"
        outputs = tuple(map(self._name, op.outputs))
        self._add(op, f"{where}, {next(filter(None, outputs), op.op_type)}", outputs)

    def _add(self, op: OperatorRecord, name: str, outputs: tuple[str, ...]) -> None:
        inputs = tuple(map(self._name, op.inputs))
        attributes = {**op.options, **self._tensor_attributes(op)}
        self.graph.nodes.append(NodeDef(op.op_type, op.domain, name, inputs, outputs, attributes))

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


class _Named(dict[int, str]):
    """The names of a subgraph's tensors."""

    def __init__(self, subgraph: _Subgraph) -> None:
        super().__init__()
        self.subgraph = subgraph

    def __missing__(self, index: int) -> str:
        return self.subgraph._name(index)
