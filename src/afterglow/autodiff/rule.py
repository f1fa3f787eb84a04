"""What the gradient rules of control flow are given."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

from afterglow.graph import Builder, Function, Gradients, Node, Value
from afterglow.ops.fill import Fill
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType

Differentiate: TypeAlias = Callable[
    [Builder, Sequence[Value], Sequence[Value], Sequence[Value]], list[Value | None]
]
"""Emits, in a body, the gradients of results with respect to inputs, given those of the results."""


@dataclass(frozen=True)
class Context:
    """Where to emit, which values depend on variables, and how a body is differentiated."""

    b: Builder
    varying: Container[Value]
    differentiate: Differentiate


Rule: TypeAlias = Callable[[Context, Node, Gradients], Gradients]
"""Emits the gradient of each operand of a node, given those of its results."""


def zeros(b: Builder, type: TensorType) -> Value:
    """Emit zeros."""
    return b.emit(Fill(type.shape, 0.0, type.dtype))


def emit_if_missing(b: Builder, grad: Value | None, type: TensorType) -> Value:
    """A gradient, or zeros if nothing flows back."""
    return zeros(b, type) if grad is None else grad


def inputs_behind(body: Function) -> dict[Value, set[int]]:
    """The numbers of the inputs of a body that each of its values depends on."""
    found: dict[Value, set[int]] = {value: {i} for i, value in enumerate(body.inputs)}
    for node in body.nodes:
        behind = set().union(*(found.get(value, ()) for value in node.inputs()))
        found.update((result, behind) for result in node.results)
    return found


def erase_unused(body: Function) -> None:
    """Erase the nodes of a body that lead to none of its results."""
    escaping = {*body.escaping()}
    for node in reversed([*body.nodes]):
        if not any(result.use_count or result in escaping for result in node.results):
            body.erase(node)
