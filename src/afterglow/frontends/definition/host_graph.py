"""Definitions of models as graph IR of host nodes, and back.

The graph IR has everything that the definition has: each node is a `HostOp` with the version of its
domain, tensors are constants, bodies are functions that take the outer values they capture. So a
model, or what is left of it behind a boundary, prints as text, parses back, and can be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial

from afterglow.frontends.definition.dialect import Dialect
from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    FunctionDef,
    GraphDef,
    ModelDef,
    NodeDef,
    TensorDef,
    TypeDef,
    ValueDef,
)
from afterglow.frontends.definition.order import free_names, in_order
from afterglow.graph import BOUNDARY, Constant, Function, HostOp, Module, Node, Subgraph, Value
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DynamicExtent, DynamicType, HostKind, HostType, TensorType
from afterglow.types.dynamic import tensor_type

_ANY = HostType(HostKind.ANY)
_TENSORS = (AttributeKind.TENSOR, AttributeKind.SPARSE_TENSOR)
_GRAPHS = (AttributeKind.GRAPH, AttributeKind.GRAPHS)


def graph_of(model: ModelDef) -> Module:
    """The graph IR of a model; what it reads but nothing defines is a boundary value."""
    return _Builder(model).run()


def model_of(module: Module, dialect: Dialect) -> ModelDef:
    """The definition that such graph IR of a dialect stands for."""
    return _Reader(module, dialect).run()


def dialect_name(module: Module) -> str | None:
    """The dialect that the host nodes of a module are of; None if it has no host nodes."""
    ops = (node.op for function in module.functions.values() for node in function.nodes)
    return next((op.dialect for op in ops if isinstance(op, HostOp) and op != BOUNDARY), None)


class _Builder:
    """Makes host nodes of a definition."""

    def __init__(self, model: ModelDef) -> None:
        self.model = model
        self.module = Module(model.graph.name or "model")
        self.opsets = dict(model.opset_import)
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.called: dict[tuple[str, str, str], Function] = {}

    def run(self) -> Module:
        graph = self.model.graph
        main = Function("main", self.module)
        scope = _Scope(main, self.opsets)
        initialized = {tensor.name for tensor in graph.constants}
        for info in graph.input:
            if info.name not in initialized:
                scope.values[info.name] = main.input(info.name, _type(info.type))
        self._fill(scope, graph)
        for info in graph.output:
            main.output(info.name, scope.find(info.name))
        return self.module

    def _fill(self, scope: _Scope, graph: GraphDef) -> None:
        """Add the constants and nodes of a graph to a function."""
        for tensor in graph.constants:
            scope.values[tensor.name] = self.module.constant(tensor.name, tensor.read())
        types = {info.name: _type(info.type) for info in graph.output}
        self._add_nodes(scope, graph.node, {**_declared(graph), **types})

    def _add_nodes(
        self, scope: _Scope, nodes: Sequence[NodeDef], types: Mapping[str, TensorType]
    ) -> None:
        for node in in_order(nodes, scope.values).nodes:
            if any(node.output):
                self._add_node(scope, node, types)

    def _add_node(self, scope: _Scope, node: NodeDef, types: Mapping[str, TensorType]) -> None:
        operands: list[Value | None] = [scope.find(name) if name else None for name in node.input]
        attributes = {**self._defaults(node), **node.attributes}
        tensors = [name for name, each in attributes.items() if _is_tensor(each)]
        operands += [self._tensor(node, name, attributes[name]) for name in tensors]
        bodies, functions, captured = self._bodies(scope, node, attributes, operands)
        named = list(map(scope.find, node.named_values))
        domain = node.domain
        op = HostOp(
            self.model.dialect.name,
            domain,
            node.op_type,
            scope.opsets.get(domain, 1),
            node.overload,
            tuple(map(bool, node.output)),
            tuple(_plain(name, each) for name, each in attributes.items() if _is_plain(each)),
            tuple(tensors),
            captured,
            bodies,
            functions,
            len(named),
        )
        wanted = [name for name in node.output if name]
        names = [scope.function.names.claim(name) for name in wanted]
        result_types = [types.get(name, _ANY) for name in wanted]
        origins = (node.name,) if node.name else ()
        scope.add(Node(op, [*operands, *named], result_types, names, origins), wanted)

    def _defaults(self, node: NodeDef) -> Mapping[str, AttributeDef]:
        """The attributes that a call has unless it says otherwise."""
        function = self.functions.get(_key(node))
        return {} if function is None else function.defaults

    def _tensor(self, node: NodeDef, name: str, attribute: AttributeDef) -> Constant:
        label = node.name or next(filter(None, node.output))
        return self.module.constant(f"{label}.{name}", attribute.value.read())

    def _bodies(
        self,
        scope: _Scope,
        node: NodeDef,
        attributes: Mapping[str, AttributeDef],
        operands: list[Value | None],
    ) -> tuple[tuple[str, ...], tuple[Subgraph, ...], tuple[int, ...]]:
        """The functions that a node carries; the outer values that they capture are operands."""
        names: list[str] = []
        functions: list[Subgraph] = []
        counts: list[int] = []
        if _key(node) in self.functions:
            names.append("")
            functions.append(Subgraph(self._called(_key(node))))
            counts.append(0)
        for name, attribute in attributes.items():
            for graph in attribute.graphs:
                body, captured = self._body(scope, f"{node.name or node.op_type}.{name}", graph)
                names.append(name)
                functions.append(Subgraph(body))
                counts.append(len(captured))
                operands.extend(captured)
        return tuple(names), tuple(functions), tuple(counts)

    def _body(self, scope: _Scope, name: str, graph: GraphDef) -> tuple[Function, list[Value]]:
        """A body as a function, and the outer values that it captures."""
        function = Function(self._free_name(name), self.module)
        inner = _Scope(function, scope.opsets)
        for info in graph.input:
            inner.values[info.name] = function.input(info.name, _type(info.type))
        captured = []
        for outer in free_names(graph):
            value = scope.find(outer)
            if isinstance(value, Constant):
                inner.values[outer] = value
            else:
                captured.append(value)
                inner.values[outer] = function.input(outer, value.type)
        self._fill(inner, graph)
        for info in graph.output:
            function.output(_free_output(function, info.name), inner.find(info.name))
        return function, captured

    def _called(self, key: tuple[str, str, str]) -> Function:
        """A function of the model."""
        if key not in self.called:
            definition = self.functions[key]
            own = dict(definition.opset_import)
            function = Function(self._free_name(".".join(filter(None, key))), self.module)
            self.called[key] = function
            inner = _Scope(function, {**self.opsets, **own})
            for name in definition.input:
                inner.values[name] = function.input(name, _ANY)
            self._add_nodes(inner, definition.node, {})
            for name in definition.output:
                function.output(_free_output(function, name), inner.find(name))
        return self.called[key]

    def _free_name(self, base: str) -> str:
        count, name = 0, base
        while name in self.module.functions:
            count += 1
            name = f"{base}_{count}"
        return name


@dataclass
class _Scope:
    """What names stand for in one function, and the versions of domains that hold there."""

    function: Function
    opsets: Mapping[str, int]
    values: dict[str, Value] = field(default_factory=dict)

    def find(self, name: str) -> Value:
        if name not in self.values:
            self.add(Node(BOUNDARY, (), (_ANY,), (self.function.names.claim(name),)), [name])
        return self.values[name]

    def add(self, node: Node, names: Iterable[str]) -> None:
        """Insert a node whose results have these names in the model."""
        self.function.insert(node)
        self.values.update(zip(names, node.results, strict=True))


class _Reader:
    """Makes a definition of host nodes."""

    def __init__(self, module: Module, dialect: Dialect) -> None:
        self.module = module
        self.dialect = dialect
        self.opsets: dict[str, int] = {}
        self.functions: dict[tuple[str, str, str], FunctionDef] = {}
        taken = {value.name for f in module.functions.values() for value in _values(f)}
        self.constants: dict[Value, str] = {
            constant: constant.name if constant.name not in taken else f"{constant.name}\0"
            for constant in module.constants.values()
        }

    def run(self) -> ModelDef:
        main = self.module.main
        graph = self._graph(main, {}, self.opsets, len(main.inputs))
        read = _read_constants(self.module)
        arrays = [(self.constants[constant], constant.data) for constant in read]
        tensors = tuple(TensorDef(name, partial(_same, x), f"@{name}") for name, x in arrays)
        return ModelDef(
            self.dialect,
            GraphDef(self.module.name, graph.node, graph.input, graph.output, tensors),
            tuple(self.functions.values()),
            tuple(self.opsets.items()),
            ir_version=10,
        )

    def _graph(
        self, function: Function, outer: Mapping[Value, str], opsets: dict[str, int], inputs: int
    ) -> GraphDef:
        """The definition of a function that takes so many inputs; `outer` names the others."""
        names: dict[Value, str] = {**self.constants, **outer}
        for value in _values(function):
            names.setdefault(value, value.name)
        own = function.inputs[:inputs]
        return GraphDef(
            function.name,
            self._nodes(function, names, opsets),
            tuple(ValueDef(value.name, _type_def(value.type)) for value in own),
            tuple(ValueDef(names[o.value], _type_def(o.value.type)) for o in function.outputs),
        )

    def _nodes(
        self, function: Function, names: Mapping[Value, str], opsets: dict[str, int]
    ) -> tuple[NodeDef, ...]:
        return tuple(
            self._node(node, node.op, names, opsets)
            for node in function.nodes
            if isinstance(node.op, HostOp) and node.op != BOUNDARY
        )

    def _node(
        self, node: Node, op: HostOp, names: Mapping[Value, str], opsets: dict[str, int]
    ) -> NodeDef:
        opsets[op.domain] = op.version
        first, end, _ = op.operand_counts(len(node.operands))
        attributes = dict(map(_attribute, op.attributes))
        for name, tensor in zip(op.tensors, node.operands[first:end], strict=True):
            assert isinstance(tensor, Constant)
            value = TensorDef("", partial(_same, tensor.data), f"@{tensor.name}")
            attributes[name] = AttributeDef(AttributeKind.TENSOR, value)
        self._add_bodies(node, op, names, opsets, attributes)
        results = iter(node.results)
        inputs = ("" if value is None else names[value] for value in node.operands[:first])
        outputs = (names[next(results)] if wanted else "" for wanted in op.results)
        return NodeDef(
            op.name, op.domain, node.origin, tuple(inputs), tuple(outputs), attributes, op.overload
        )

    def _add_bodies(
        self,
        node: Node,
        op: HostOp,
        names: Mapping[Value, str],
        opsets: dict[str, int],
        attributes: dict[str, AttributeDef],
    ) -> None:
        """Note the graphs that a node has as attributes, and the function that it calls."""
        operands = iter(node.operands[op.operand_counts(len(node.operands))[1] :])
        graphs: dict[str, list[GraphDef]] = {}
        for name, subgraph, count in zip(op.bodies, op.functions, op.captured, strict=True):
            function = subgraph.function
            captured = [next(operands) for _ in range(count)]
            inputs = len(function.inputs) - count
            pairs = zip(function.inputs[inputs:], captured, strict=True)
            outer: dict[Value, str] = {
                inner: names[value] for inner, value in pairs if value is not None
            }
            if name:
                graphs.setdefault(name, []).append(self._graph(function, outer, opsets, inputs))
            else:
                self._add_function(op, function)
        for name, found in graphs.items():
            is_one = len(found) == 1
            kind = AttributeKind.GRAPH if is_one else AttributeKind.GRAPHS
            attributes[name] = AttributeDef(kind, found[0] if is_one else tuple(found))

    def _add_function(self, op: HostOp, function: Function) -> None:
        key = (op.domain, op.name, op.overload)
        if key in self.functions:
            return
        opsets: dict[str, int] = {}
        names: dict[Value, str] = {**self.constants, **{v: v.name for v in _values(function)}}
        self.functions[key] = FunctionDef(
            op.name,
            op.domain,
            op.overload,
            tuple(value.name for value in function.inputs),
            tuple(names[output.value] for output in function.outputs),
            self._nodes(function, names, opsets),
            {},
            tuple(opsets.items()),
        )


def _values(function: Function) -> Iterable[Value]:
    """What a function itself defines."""
    yield from function.inputs
    for node in function.nodes:
        yield from node.results


def _read_constants(module: Module) -> list[Constant]:
    """The constants that are operands of the dialect's ops, rather than attributes of them."""
    found: dict[Value, None] = {}
    for function in module.functions.values():
        found.update((output.value, None) for output in function.outputs)
        for node in function.nodes:
            assert isinstance(node.op, HostOp)
            end = node.op.operand_counts(len(node.operands))[0]
            found.update((value, None) for value in node.operands[:end] if value is not None)
    return [constant for constant in module.constants.values() if constant in found]


def _key(node: NodeDef) -> tuple[str, str, str]:
    return node.domain, node.op_type, node.overload


def _same(array: Array) -> Array:
    return array


def _is_tensor(attribute: AttributeDef) -> bool:
    return attribute.kind in _TENSORS and not attribute.reference


def _is_plain(attribute: AttributeDef) -> bool:
    return bool(attribute.reference) or attribute.kind not in (*_TENSORS, *_GRAPHS)


def _plain(name: str, attribute: AttributeDef) -> tuple[object, ...]:
    """An attribute as the text has it: name, kind, and value or what it refers to."""
    if attribute.reference:
        return name, attribute.kind.name, None, attribute.reference
    return name, attribute.kind.name, attribute.value


def _attribute(entry: Sequence[object]) -> tuple[str, AttributeDef]:
    name, kind, value, *reference = entry
    found = AttributeDef(AttributeKind[str(kind)], value, *map(str, reference))
    return str(name), found


def _free_output(function: Function, base: str) -> str:
    """A name that no output of a body has: a body may return one value twice."""
    taken = {output.name for output in function.outputs}
    names = (base, *(f"{base}_{count}" for count in range(1, len(taken) + 1)))
    return next(name for name in names if name not in taken)


def _declared(graph: GraphDef) -> dict[str, TensorType]:
    return {name: _type(type) for name, type in graph.types.items()}


def _type(declared: TypeDef | None) -> TensorType:
    """The type that a value is declared to have, as far as that says anything."""
    if declared is None:
        return _ANY
    if declared.kind != "tensor":
        kinds = {kind.value: kind for kind in HostKind}
        return HostType(kinds.get(declared.kind, HostKind.ANY))
    if declared.element is None:
        return _ANY
    shape = declared.shape
    extents = (
        None
        if shape is None
        else [e if isinstance(e, int) else DynamicExtent(e or "") for e in shape]
    )
    return tensor_type(declared.element, extents)


def _type_def(type: TensorType) -> TypeDef | None:
    match type:
        case HostType(kind=HostKind.ANY):
            return None
        case HostType(kind=kind):
            return TypeDef(kind.value)
        case DynamicType(dtype=dtype, extents=extents):
            if extents is None:
                return TypeDef("tensor", dtype)
            shape = tuple(e if isinstance(e, int) else e.name or None for e in extents)
            return TypeDef("tensor", dtype, shape)
    return TypeDef("tensor", type.dtype, type.shape)
