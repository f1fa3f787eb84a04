"""The calls of an FX graph as nodes of a definition, each of the same name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import fx

from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    GraphDef,
    NodeDef,
    TensorDef,
    ValueDef,
    constant,
)
from afterglow.frontends.torch.arguments import Arguments
from afterglow.frontends.torch.control import CONTROL
from afterglow.frontends.torch.decompositions import is_imported, qualified_name
from afterglow.frontends.torch.elements import element_type
from afterglow.frontends.torch.node import LAYOUT, PLACE, RESULTS
from afterglow.frontends.torch.registry import PROGRAM
from afterglow.frontends.torch.stack_trace import source_line
from afterglow.frontends.torch.tensors import read_tensor
from afterglow.support.errors import AfterglowError, UnsupportedError
from afterglow.types.dtype import boolean, f64, i64

_GETITEM = ("_operator", "getitem")
_DROPPED = frozenset(
    {
        ("aten", "sym_constrain_range.default"),
        ("aten", "sym_constrain_range_for_size.default"),
        ("aten", "_assert_scalar.default"),
        ("aten", "_assert_async.msg"),
        ("aten", "_assert_async.default"),
        ("aten", "_assert_tensor_metadata.default"),
        _GETITEM,  # resolved where it is read
    }
)
"""Calls without results that only state facts, which hold for all that we import."""

_LOOKS_AT_LAYOUT = frozenset(
    {
        *("as_strided", "as_strided_copy", "as_strided_scatter"),
        *("sym_stride", "sym_storage_offset"),
    }
)
"""Ops whose results depend on how their operand lies in memory."""


def is_known(node: fx.Node) -> bool:
    """Whether what an FX node calls can be imported, or needs not be."""
    name = qualified_name(node.target)
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return name[1] in CONTROL
    return name in _DROPPED or is_imported(node.target)


class Calls:
    """Translates the calls of one FX graph.

    The prefix tells names of values apart from those of the graphs around it.
    """

    def __init__(self, graph: fx.Graph, prefix: str = "") -> None:
        self.graph = graph
        self.prefix = prefix
        self.names: dict[fx.Node, str] = {}
        """What values are called that are not called as their FX node."""
        self.copies: list[tuple[str, fx.Node]] = []
        """Further names of values."""
        self.nodes: list[NodeDef] = []
        self.constants: list[TensorDef] = []

    def inside(self, graph: fx.Graph, prefix: str, inputs: Sequence[str]) -> Calls:
        """The calls of a graph inside of this one, with these values for what it takes."""
        inner = Calls(graph, f"{self.prefix}{prefix}.")
        taken = [node for node in graph.nodes if node.op == "placeholder"]
        inner.names.update(zip(taken, inputs, strict=True))
        inner.add_calls()
        return inner

    def take(self, inner: Calls) -> None:
        """Add what was translated of a graph inside to this one."""
        self.nodes.extend(inner.nodes)
        self.constants.extend(inner.constants)

    def as_graph(self, inputs: Sequence[str], outputs: Sequence[str]) -> GraphDef:
        """What was translated, as a graph that takes and returns these."""
        taken, returned = tuple(map(ValueDef, inputs)), tuple(map(ValueDef, outputs))
        name = self.prefix.rstrip(".")
        return GraphDef(name, tuple(self.nodes), taken, returned, tuple(self.constants))

    def add_calls(self) -> None:
        """Translate all calls."""
        for node in self.graph.nodes:
            if node.op == "call_function":
                self._add_call(node)
            elif node.op == "get_attr":
                self._add_attribute(node)
            elif node.op in ("call_method", "call_module"):
                raise UnsupportedError(
                    f"it is a {node.op} of {node.target!r}, not a call of an op",
                    where=f"in node {self.node_name(node)!r}",
                )

        for name, source in self.copies:
            self.add_alias(name, self.name_of(source))

    def return_as(self, name: str, result: fx.Node) -> None:
        """Name a value that is returned: before the calls are added."""
        if result not in self.names and result.op != "placeholder":
            self.names[result] = name
        elif self.name_of(result) != name:
            self.copies.append((name, result))

    def results(self) -> list[Any]:
        """What the graph returns: FX nodes, and Python's values."""
        output = next(node for node in reversed(self.graph.nodes) if node.op == "output")
        returned = output.args[0]
        return list(returned) if isinstance(returned, (tuple, list)) else [returned]

    def operands(self, values: Sequence[Any]) -> list[str]:
        """The names of values; of numbers, those of constants."""
        return [self._operand(value) for value in values]

    def _operand(self, value: Any) -> str:
        if isinstance(value, fx.Node):
            return self.name_of(value)
        if not isinstance(value, (bool, int, float)):
            raise UnsupportedError(f"a {type(value).__name__} cannot be a value of the graph")
        name = f"{self.prefix}constant {len(self.constants)}"
        self.add_number(name, value)
        return name

    def add_number(self, name: str, value: float) -> None:
        """Add a constant without axes."""
        self.constants.append(constant(name, np.asarray(value)))

    def add_alias(self, name: str, source: str) -> None:
        """Call a value by a further name."""
        self.nodes.append(NodeDef("alias", PROGRAM, name, (source,), (name,)))

    def name_of(self, node: fx.Node) -> str:
        """What the value of an FX node is called."""
        if node in self.names:
            return self.names[node]
        if node.op == "call_function" and qualified_name(node.target) == _GETITEM:
            source, index = node.args
            return f"{self.name_of(source)}.{index}"
        return self.node_name(node)

    def node_name(self, node: fx.Node) -> str:
        """What the node of a call is called."""
        return f"{self.prefix}{node.name}"

    def attribute(self, node: fx.Node) -> Any:
        """The attribute of the graph that an FX node stands for."""
        found: Any = self.graph.owning_module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        return found

    def _add_attribute(self, node: fx.Node) -> None:
        found = self.attribute(node)
        if isinstance(found, torch.Tensor) and node not in self.names:
            name = self.name_of(node)
            self.constants.append(TensorDef(name, partial(read_tensor, name, found)))

    def _add_call(self, node: fx.Node) -> None:
        domain, op_type = qualified_name(node.target)
        if (domain, op_type) in _DROPPED:
            return
        try:
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                self._add_control(node, op_type)
                return
            arguments = Arguments(self.name_of)
            attributes = arguments.attributes(node)
            self.add_node(node, (domain, op_type), attributes, arguments.operands)
        except AfterglowError as error:
            if error.where:
                raise
            place = source_line(node)
            at = f", at {place}" if place else ""
            where = f"in node {self.node_name(node)!r} ({domain}::{op_type}){at}"
            raise UnsupportedError(error.what, where=where, help=error.help) from None

    def _add_control(self, node: fx.Node, name: str) -> None:
        if name not in CONTROL:
            raise UnsupportedError("this op is not supported")
        CONTROL[name](self, node)

    def add_node(
        self,
        node: fx.Node,
        op: tuple[str, str],
        attributes: Mapping[str, AttributeDef],
        operands: Sequence[str],
    ) -> None:
        """Add the node of a call, with what its results hold and the line that it comes from."""
        value = node.meta.get("val")
        found = {**attributes, RESULTS: AttributeDef(AttributeKind.STRINGS, _results(value))}
        place = source_line(node)
        if place:
            found[PLACE] = AttributeDef(AttributeKind.STRING, place)
        layout = _layout(node) if op[1].partition(".")[0] in _LOOKS_AT_LAYOUT else None
        if layout is not None:
            found[LAYOUT] = AttributeDef(AttributeKind.INTS, layout)
        outputs = tuple(self._output_names(node, value))
        name, (domain, op_type) = self.node_name(node), op
        self.nodes.append(NodeDef(op_type, domain, name, tuple(operands), outputs, found))

    def _output_names(self, node: fx.Node, value: Any) -> Iterator[str]:
        read = self.picked(node)
        if not read and not isinstance(value, (tuple, list)):
            yield self.name_of(node)
            return
        count = len(value) if isinstance(value, (tuple, list)) else 1 + max(read)
        for index in range(count):
            yield self.name_of(read[index]) if index in read else ""

    def picked(self, node: fx.Node) -> dict[int, fx.Node]:
        """The FX nodes that stand for single results of a call, by the number of the result."""
        users = (user for user in reversed(node.users) if user.op == "call_function")
        return {user.args[1]: user for user in users if qualified_name(user.target) == _GETITEM}


def _layout(node: fx.Node) -> tuple[int, ...] | None:
    """Where the first operand of a call begins, then its strides; None if they are not numbers."""
    value = node.args[0].meta.get("val") if isinstance(node.args[0], fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    numbers = (value.storage_offset(), *value.stride())
    return numbers if all(isinstance(number, int) for number in numbers) else None


def _results(value: Any) -> tuple[str, ...]:
    """The element types of the results that a call has, nothing for those that are None."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(map(_result, items))


def _result(value: Any) -> str:
    match value:
        case torch.Tensor():
            return element_type(value.dtype).name
        case bool() | torch.SymBool():
            return boolean.name
        case int() | torch.SymInt():
            return i64.name
        case float() | torch.SymFloat():
            return f64.name
    return ""
