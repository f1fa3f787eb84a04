"""Importing the nodes of a graph: names to values, node by node, every problem collected."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial

from afterglow.frontends.base import NeedsValuesError
from afterglow.frontends.definition.context import (
    GrownTensor,
    Imported,
    ImportedBody,
    NodeContext,
    RowList,
)
from afterglow.frontends.definition.dialect import Dialect, Importer, Results
from afterglow.frontends.definition.differentiated import variables
from afterglow.frontends.definition.frame import Frame, Session, TooLargeError
from afterglow.frontends.definition.functions import call_frame
from afterglow.frontends.definition.known import KnownValues
from afterglow.frontends.definition.model import (
    AttributeDef,
    FunctionDef,
    GraphDef,
    NodeDef,
    TensorDef,
)
from afterglow.frontends.definition.order import in_order, reads
from afterglow.frontends.definition.problems import (
    ChangesTypesError,
    GrownReadError,
    NeedsInliningError,
    Problem,
    ProblemsError,
)
from afterglow.frontends.definition.progress import Stop
from afterglow.frontends.definition.scope import BrokenValueError, Scope
from afterglow.graph import Builder, Constant, Function, Subgraph, Value
from afterglow.support.errors import (
    FAULTS,
    AfterglowError,
    InternalError,
    ModelError,
    lacks_memory,
    out_of_memory,
)
from afterglow.support.names import NameScope
from afterglow.types import TensorType

_LOGIC = {"And", "Cast", "Identity", "Not", "Or"}
"""Ops of truth values that are tensors of any shape."""


class GraphImporter:
    """Imports the nodes of one graph, or of a function of the model, into a function of ours."""

    def __init__(
        self, session: Session, function: Function, frame: Frame, outer: Scope | None = None
    ) -> None:
        self.session = session
        self.function = function
        self.frame = frame
        self.scope = Scope(function, session.known, outer)
        self.computed: set[str] = set()
        self.problems: list[Problem] = []
        self.stops: list[Stop] = []
        self._needed: dict[str, None] = {}
        self._graph: GraphDef | None = None
        self._inlining: NeedsInliningError | None = None

    @property
    def dialect(self) -> Dialect:
        """The kind of model that it is a graph of."""
        return self.session.model.dialect

    @property
    def known(self) -> KnownValues:
        """Values that follow from constants."""
        return self.session.known

    def add_graph(self, graph: GraphDef) -> None:
        """Import the constants and nodes of a graph whose inputs are defined."""
        self._graph = graph
        self.add_constants(graph)
        self.add_nodes(graph.node)

    def only_decides(self, name: str) -> bool:
        """Whether a truth value is only asked for by If: its shape makes no difference."""
        if self._graph is None or any(name == info.name for info in self._graph.output):
            return False
        readers = [node for node in self._graph.node if name in reads(node)]
        return all(
            self.only_decides(node.output[0])
            if node.op_type in _LOGIC
            else node.op_type == "If" and reads(node).count(name) == 1 and node.input[0] == name
            for node in readers
        )

    def add_constants(self, graph: GraphDef, names: Container[str] | None = None) -> None:
        """Import the constants of a graph, all or those of these names."""
        for tensor in graph.constants:
            if names is None or tensor.name in names:
                self._add_constant(tensor)

    def _add_constant(self, tensor: TensorDef) -> None:
        name = tensor.name
        try:
            array = tensor.read()
            if not self.scope.has_constant(name, array):
                constant = self.function.module.constant(self.frame.name(name), array)
                self.scope.define(name, constant)
        except AfterglowError as error:
            self.problems.append(Problem(error))
            self.scope.spoil([name])

    def add_nodes(self, nodes: Sequence[NodeDef]) -> None:
        """Import nodes; one that fails spoils what depends on it, silently."""
        self.scope.vary(variables(nodes))
        order = in_order(nodes, self.scope)
        if order.cycle:
            names = " -> ".join(repr(node.label) for node in [*order.cycle, order.cycle[0]])
            self.problems.append(Problem(ModelError(f"nodes form a cycle: {names}")))
        for proto in order.stuck:
            self.scope.spoil(proto.output)
        for proto in order.nodes:
            if self.frame.is_expanded:
                self.session.count_expanded()
            if not self._try_node(proto):
                self.scope.spoil(proto.output)

    def _try_node(self, proto: NodeDef) -> bool:
        """Import a node; if that fails, keep the reason and return False."""
        try:
            self._add_node(proto)
        except (TooLargeError, InternalError):
            raise
        except BrokenValueError:
            return False
        except NeedsValuesError as error:
            self._needed.update(dict.fromkeys(error.inputs))
            self.stops.append(self._stop(proto, error.inputs))
            return False
        except ProblemsError as error:
            self.problems.extend(error.problems)
            return False
        except GrownReadError as error:
            if not self.frame.is_body:  # only the host can run it
                self.stops.append(self._stop(proto, ()))
                return False
            error.node, error.names = proto, self.scope.grown_among(reads(proto))
            raise
        except AfterglowError as error:
            if not isinstance(error, NeedsInliningError):
                self.problems.append(self._problem(proto, error))
            elif self.frame.is_body:
                keeps = isinstance(self._inlining, ChangesTypesError)
                self._inlining = self._inlining if keeps else error
            else:  # only the host can run it
                self.stops.append(self._stop(proto, ()))
            return False
        return True

    def _stop(self, proto: NodeDef, inputs: tuple[str, ...]) -> Stop:
        return Stop(proto, inputs, self.session.refused.get(id(proto), Stop.reason))

    def _problem(self, proto: NodeDef, error: AfterglowError) -> Problem:
        op = self.dialect.label(proto.domain, proto.op_type, self._opset(proto.domain))
        return Problem(error, op, self.frame.where(proto.label), self.dialect.place(proto))

    def _opset(self, domain: str) -> int:
        """The version of a domain; models often forget to name that of a custom one."""
        return self.frame.opsets.get(domain, 1)

    def _add_node(self, proto: NodeDef) -> None:
        importer = self._importer(proto)
        operands = [self.scope.look_up(name) for name in proto.input]
        name = self.frame.name(next((output for output in proto.output if output), proto.name))
        origins = self.frame.origins or (proto.name or name,)
        builder = Builder(self.function, name=name, origins=origins)
        opset = self._opset(proto.domain)
        n = self.dialect.context(self, proto, self._attributes(proto), operands, opset, builder)
        results = self._imported(importer, n)
        if isinstance(results, Imported):
            results = (results,)
        _rename(builder, name, results[0] if results else None)
        for output, value in zip(proto.output, results, strict=False):
            if output:
                self.scope.define(output, value)
                self.computed.add(output)

    def _imported(self, importer: Importer, n: NodeContext) -> Results:
        """Run an importer; a fault of its own becomes an error that names the node."""
        try:
            return importer(n)
        except AfterglowError:
            raise
        except (MemoryError, *FAULTS) as fault:
            if lacks_memory(fault):
                raise out_of_memory("compute it", fault) from None
            problem = self._problem(n.proto, ModelError(""))
            raise InternalError(
                f"internal error, {type(fault).__name__}: {fault}",
                where=problem.where,
                help="please report it; the node may be malformed, and should have been refused",
            ) from fault

    def _attributes(self, proto: NodeDef) -> dict[str, AttributeDef]:
        """The node's attributes; in a function, some are those of the call."""
        found = {}
        for name, attribute in proto.attributes.items():
            if not attribute.reference:
                found[name] = attribute
            elif attribute.reference in self.frame.attributes:
                found[name] = self.frame.attributes[attribute.reference]
        return found

    def _importer(self, proto: NodeDef) -> Importer:
        """What imports a node: the model's own function, or that of its dialect for the op."""
        function = self.session.functions.get((proto.domain, proto.op_type, proto.overload))
        if function is not None:
            return partial(self.call, function, {})
        return self.dialect.importer(self, proto, self._opset(proto.domain))

    def call(
        self,
        function: FunctionDef,
        defaults: Mapping[str, AttributeDef],
        n: NodeContext,
    ) -> list[Imported | None]:
        """Import a function in the place of a node."""
        frame = call_frame(n, self.frame, function, defaults)
        if len(n) > len(function.input):
            raise ModelError(f"it has {len(n)} inputs, its function takes {len(function.input)}")
        inner = GraphImporter(self.session, self.function, frame)
        for index, name in enumerate(function.input):
            inner.scope.define(name, n.operands[index] if index < len(n) else None)
        inner.add_nodes(function.node)
        return inner.results([name if n.wants(i) else "" for i, name in enumerate(function.output)])

    def results(self, names: Sequence[str]) -> list[Imported | None]:
        """What these names stand for, once the graph is imported; or all that went wrong."""
        if self.problems:
            raise ProblemsError(self.problems)
        if self._inlining is not None:
            raise self._inlining
        if self.stops:
            raise NeedsValuesError(tuple(self._needed))
        return [self.scope.look_up(name) for name in names]

    def import_inline(
        self, n: NodeContext, name: str, inputs: Sequence[Imported | None], prefix: str
    ) -> list[Imported | None]:
        """See `NodeContext.inline`."""
        history = self.session.history(n.graph_attribute(name))
        while True:
            frame = self.frame.inside(
                f"{name} of {n.builder.origin!r}",
                prefix=prefix or self.frame.prefix,
                names={},
                is_expanded=True,
            )
            inner = GraphImporter(self.session, self.function, frame, self.scope)
            names = _input_names(name, history.graph, len(inputs))
            for input_name, value in zip(names, inputs, strict=True):
                inner.scope.define(input_name, value)
            try:
                inner.add_graph(history.graph)
            except GrownReadError as error:
                if not history.split_off(error):
                    raise
            else:
                return inner.results([info.name for info in history.graph.output])

    def import_body(
        self, n: NodeContext, name: str, inputs: Sequence[TensorType | Constant | RowList]
    ) -> ImportedBody:
        """See `NodeContext.body`."""
        history = self.session.history(n.graph_attribute(name))
        while True:
            try:
                return self._import_graph(n, name, history.graph, inputs)
            except GrownReadError as error:
                if not history.split_off(error):
                    raise NeedsInliningError(error.what) from None

    def _import_graph(
        self,
        n: NodeContext,
        name: str,
        graph: GraphDef,
        inputs: Sequence[TensorType | Constant | RowList],
    ) -> ImportedBody:
        module = self.session.module
        frame = self.frame.inside(f"{name} of {n.builder.origin!r}", names={}, is_body=True)
        frame = replace(frame, is_in_loop=frame.is_in_loop or name == "body")
        with self.session.attempt():
            function = module.new_function(f"{n.builder.name}.{name}")
            inner = GraphImporter(self.session, function, frame, self.scope)
            names = _input_names(name, graph, len(inputs))
            for input_name, given in zip(names, inputs, strict=True):
                inner.scope.define(input_name, self._body_input(function, input_name, given))
            inner.add_graph(graph)
            others = _add_outputs(function, [info.name for info in graph.output], inner)
        return ImportedBody(Subgraph(function), list(inner.scope.captured), *others)

    def _body_input(
        self, function: Function, name: str, given: TensorType | Constant | RowList
    ) -> Value | RowList:
        """An input of a body: one that is the same each time is none of the function."""
        if isinstance(given, (Constant, RowList)):
            return given
        placeholder = function.input(name, given)
        self.session.forms.open.add(placeholder)
        return placeholder


def _add_outputs(
    function: Function, names: Sequence[str], graph: GraphImporter
) -> tuple[dict[int, RowList], dict[int, GrownTensor]]:
    """Return what the names stand for; a body may return one value twice.

    Lists and what grew are left out: these are returned by their places.
    """
    free = NameScope()
    lists: dict[int, RowList] = {}
    grown: dict[int, GrownTensor] = {}
    for place, (name, value) in enumerate(zip(names, graph.results(names), strict=True)):
        if isinstance(value, RowList) and value.base is not None:
            lists[place] = value
            continue
        if isinstance(value, GrownTensor):
            grown[place] = value
            continue
        if not isinstance(value, Value):
            raise NeedsInliningError(f"{name!r} is a sequence or an optional, not a tensor")
        function.output(free.claim(name), value)
    return lists, grown


def _input_names(name: str, graph: GraphDef, given: int) -> list[str]:
    if len(graph.input) != given:
        raise ModelError(f"{name} takes {len(graph.input)} inputs, it is given {given}")
    return [info.name for info in graph.input]


def _rename(builder: Builder, name: str, result: Imported | None) -> None:
    """Give the node's name to its first result, and to what led there the names of its steps."""
    emitted = [node for node in builder.emitted if node.function is builder.function]
    last = result.producer if isinstance(result, Value) else None
    if last not in emitted:
        return
    for node in (n for n in emitted if n is not last and len(n.results) == 1):
        builder.function.rename(node.result, f"{name}.{node.op.mnemonic}")
    if len(last.results) == 1:
        builder.function.rename(last.result, name)
