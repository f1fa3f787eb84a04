"""Nodes of a model that run on the host by their definition, with every value known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.frontends.base import RUN_NUMBER, HostLimits, RunBody
from afterglow.frontends.definition.bodies import BodyGraph
from afterglow.frontends.definition.chunks import LoopChunks
from afterglow.frontends.definition.context import Imported, StaticSequence
from afterglow.frontends.definition.differentiated import variables
from afterglow.frontends.definition.frame import Frame, Session, TooLargeError
from afterglow.frontends.definition.graph import GraphImporter
from afterglow.frontends.definition.host_loops import HostNode, HostRun
from afterglow.frontends.definition.importer import input_constant, model_functions
from afterglow.frontends.definition.model import ModelDef, NodeDef
from afterglow.frontends.definition.order import in_order, reads
from afterglow.frontends.definition.problems import Problem, ProblemsError, import_error
from afterglow.frontends.definition.progress import needed_nodes
from afterglow.frontends.definition.replay import ReplayedNode
from afterglow.frontends.definition.signature import Parameter, ParameterKind, model_signature
from afterglow.graph import Function, Module, Value
from afterglow.support.errors import AfterglowError, InternalError, UnsupportedError
from afterglow.types import Array

_SETTLED = {
    *("Add", "Cast", "Concat", "Constant", "Div", "Expand", "Gather", "Identity", "Mul", "Neg"),
    *("Reshape", "Shape", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
}
"""Ops that make constants of constants: they need to run but once."""


class HostNodes:
    """What the host computes of a model, node by node.

    A node that takes and gives tensors is replayed; others are imported each time with all values
    known. `given` names what there will be, `values` has what is always the same. `run_body` runs
    the bodies of If, Loop and Scan.
    """

    def __init__(
        self,
        model: ModelDef,
        wanted: Sequence[str],
        given: Iterable[str],
        values: Mapping[str, Any],
        run_body: RunBody,
        limits: HostLimits,
    ) -> None:
        self.model = model
        self.wanted = wanted
        self.run_body = run_body
        self.limits = limits
        self.parameters = {p.name: p for p in model_signature(model).inputs}
        self.frame = Frame(model.dialect.opsets(model))
        self.functions = model_functions(model)
        self.nodes = needed_nodes(model.graph, wanted, {*given, *values})
        self.names = frozenset(wanted).union(*map(reads, self.nodes))
        self.fixed = {**_constants(model, self.names), **values}
        self.graphs: dict[object, BodyGraph] = {}
        self.chunks: dict[int, LoopChunks] = {}
        self._settle()
        self.replayed = self._replayed({*given, *self.fixed})

    def run(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """What is wanted by name: arrays, and lists of them where it is a sequence."""
        values = {**self.fixed, **known}
        if self.replayed is not None:
            try:
                return self._replay(self.replayed, values)
            except UnsupportedError:  # a map between two nodes cannot be cached
                pass
        return self._compute(self.nodes, self.wanted, {**self.fixed, **known})

    def _replay(self, nodes: Sequence[ReplayedNode], values: dict[str, Any]) -> dict[str, Any]:
        """Run node by node, and note the results with the values."""
        for each in nodes:
            results = each.run(values)
            if results is None and each.driver is not None:
                found = self._drive(each.node, each.driver, values)
                values.update((name, found[name]) for name in each.results)
            elif results is None:
                read = {name: values[name] for name in each.reads if name in values}
                values.update(self._compute([each.node], each.results, read))
            else:
                values.update(zip(each.results, results, strict=True))
        return {name: values[name] for name in self.wanted}

    def _drive(self, node: NodeDef, run: HostRun, values: Mapping[str, Any]) -> dict[str, Any]:
        """What an If or a Loop returns by name."""

        def look_up(name: str) -> tuple[Any, bool]:
            value = values[name]
            if isinstance(value, dict):
                raise UnsupportedError("a map in the body of If, Loop or Scan is not supported")
            return value, isinstance(self.fixed.get(name), np.ndarray)

        parts = (self.model, self.frame, self.run_body, self.graphs, self.chunks)
        try:
            operands = [look_up(name)[0] if name else None for name in node.input]
            results = run(HostNode(operands, node.attributes, *parts, look_up))
        except (TooLargeError, InternalError):
            raise
        except AfterglowError as error:
            raise import_error([self._problem(node, error)]) from None
        return dict(zip(node.output, results, strict=False))

    def _problem(self, node: NodeDef, error: AfterglowError) -> Problem:
        dialect = self.model.dialect
        op = dialect.label(node.domain, node.op_type, self.frame.opsets.get(node.domain, 1))
        return Problem(error, op, self.frame.where(node.label), dialect.place(node))

    def _replayed(self, defined: set[str]) -> list[ReplayedNode] | None:
        """The nodes in order; None if they cannot be told apart, as Gradient looks at all."""
        order = in_order(self.nodes, defined)
        if order.stuck or any(variables(self.nodes)):
            return None
        parts = (self.model, self.functions, self.frame, self.fixed)
        return [
            ReplayedNode(
                node,
                [name for name in node.output if name in self.names],
                *parts,
                limits=self.limits,
            )
            for node in order.nodes
        ]

    def _settle(self) -> None:
        """Compute once what does not depend on what is given."""
        settled = _fixed_nodes(self.nodes, self.fixed)
        names = [name for node in settled for name in node.output if name]
        self.fixed.update(self._compute(settled, names, self.fixed))
        done = set(map(id, settled))
        self.nodes = [node for node in self.nodes if id(node) not in done]

    def _compute(
        self, nodes: Sequence[NodeDef], wanted: Sequence[str], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        module = Module("host")
        session = Session(self.model, module, self.functions)
        session.run_body, session.graphs = self.run_body, self.graphs
        session.chunks = self.chunks
        session.known.unchecked = self.limits.unchecked
        session.max_memory = self.limits.max_memory
        session.cached = {id(x): x for x in self.fixed.values() if isinstance(x, np.ndarray)}
        if RUN_NUMBER in known:
            number = module.constant("run_number", known[RUN_NUMBER])
            session.given_run_number = lambda: number
        graph = GraphImporter(session, Function("main", module), self.frame)
        for name in sorted(self.names & known.keys()):
            parameter = self.parameters.get(name) or _parameter(name, known[name])
            graph.scope.define(name, input_constant(module, parameter, known[name]))
        session.own_bytes = sum(constant.type.nbytes for constant in module.constants.values())
        graph.add_nodes(nodes)
        try:
            values = zip(wanted, graph.results(wanted), strict=True)
        except ProblemsError as error:
            raise import_error(error.problems) from None
        return {name: _array(session, name, value) for name, value in values}


def _array(session: Session, name: str, value: Imported | None) -> Any:
    match value:
        case None:
            return None
        case StaticSequence():
            return [session.known.array(element) for element in value]
        case Value():
            return session.known.array(value)
    raise UnsupportedError(f"{name!r} is a map, and the shapes after it depend on data")


def _parameter(name: str, value: Any) -> Parameter:
    kinds = {list: ParameterKind.SEQUENCE, type(None): ParameterKind.OPTIONAL}
    return Parameter(name, kinds.get(type(value), ParameterKind.TENSOR))


def _constants(model: ModelDef, names: frozenset[str]) -> dict[str, Array]:
    """The constants of a model that have these names."""
    return {t.name: t.read() for t in model.graph.constants if t.name in names}


def _fixed_nodes(nodes: Sequence[NodeDef], fixed: Mapping[str, Any]) -> list[NodeDef]:
    """The nodes that only depend on what is fixed, and are the same each time."""
    known = set(fixed).difference(variables(nodes))
    found = []
    for node in nodes:
        if node.op_type in _SETTLED and known.issuperset(reads(node)):
            found.append(node)
            known.update(node.output)
    return found
