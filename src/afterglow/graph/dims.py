"""The dimensions that types and ops depend on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from afterglow.graph.function import Function
from afterglow.graph.op import Op
from afterglow.types import DynamicType, HostType, TensorType
from afterglow.types.extent import Dim, dims_of, walk_extents


def dims_of_type(type: TensorType) -> tuple[Dim, ...]:
    """The dimensions in a shape, or in what is known of one."""
    if isinstance(type, HostType):
        return ()
    extents = (type.extents or ()) if isinstance(type, DynamicType) else type.shape
    return dims_of(*(extent for extent in extents if isinstance(extent, int)))


def bounds_problem(dims: Iterable[Dim]) -> str:
    """What is wrong with dimensions of one text: one name with several bounds; empty if nothing."""
    known: dict[str, Dim] = {}
    for dim in sorted(dims, key=lambda dim: (dim.name, dim.low, dim.high)):
        if known.setdefault(dim.name, dim) != dim:
            return f"dimension {dim.name!r} is {known[dim.name].range_text} and {dim.range_text}"
    return ""


def dims_of_op(op: Op) -> tuple[Dim, ...]:
    """The dimensions in the attributes of an op, without those of functions that it carries."""
    return dims_of(*walk_extents([getattr(op, field.name) for field in fields(op)]))  # type: ignore[arg-type]  # ops are dataclasses


def dims_of_functions(functions: Iterable[Function]) -> set[Dim]:
    """The dimensions in functions, and in the state that they use."""
    found: set[Dim] = set()
    for function in functions:
        for value in (*function.inputs, *function.states()):
            found.update(dims_of_type(value.type))
            if value.level is not None:
                found.update(dims_of(value.level.before, value.level.after))
        for node in function.nodes:
            found.update(dims_of_op(node.op))
            for result in node.results:
                found.update(dims_of_type(result.type))
    return found
