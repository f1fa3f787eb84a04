"""The table of exporters: one function per op of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from afterglow.exporters.onnx.layouts import Layout, channels_first
from afterglow.exporters.onnx.own import is_bound, write_own
from afterglow.graph import Node, Op
from afterglow.support.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from afterglow.exporters.onnx.node import NodeWriter

Exporter: TypeAlias = "Callable[[NodeWriter], str | Sequence[str]]"
"""Adds nodes to a file, and gives the names of their results."""
LayoutRule: TypeAlias = Callable[[Node], Layout | None]
"""The layout in which ONNX has an op; None for any."""


@dataclass(frozen=True)
class Entry:
    """How an op is written."""

    write: Exporter
    layout: LayoutRule
    accepts: Callable[[Node], bool]
    """Whether ONNX has the op with these attributes and operands; it is lowered otherwise."""


EXPORTERS: dict[type[Op], Entry] = {}


def exports(
    *ops: type[Op],
    layout: LayoutRule = lambda node: None,
    accepts: Callable[[Node], bool] = lambda node: True,
) -> Callable[[Exporter], Exporter]:
    """Register a function for ops."""

    def register(function: Exporter) -> Exporter:
        for op in ops:
            EXPORTERS[op] = Entry(function, layout, accepts)
        return function

    return register


def images(node: Node) -> Layout:
    """The rule for ops whose first operand has channels, which ONNX has second."""
    return channels_first(node.given[0].type.rank)


def has_exporter(node: Node) -> bool:
    """Whether a node is written as it is."""
    return (type(node.op) in EXPORTERS or is_bound(node.op)) and exporter_of(node).accepts(node)


def exporter_of(node: Node) -> Entry:
    """How a node is written that has an exporter, or an op that a user has bound to one of ONNX."""
    own = Entry(write_own, lambda node: None, lambda node: True)
    return own if is_bound(node.op) else EXPORTERS[type(node.op)]
