"""The extents of a run: what the shapes of its inputs make of the dimensions of a program."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.support.errors import UsageError
from afterglow.types import Array, Interface, Port
from afterglow.types.extent import Extents, bind_extent, is_ranged, solve
from afterglow.types.sample_extents import run_text


def extents_of(interface: Interface, inputs: Sequence[Array]) -> Extents:
    """The extents of all dimensions, by name; an error if they contradict each other or a bound."""
    if not interface.dims:
        return {}
    known: dict[str, int] = {}
    axes = [
        (port, axis, extent, array.shape[axis])
        for port, array in zip(interface.inputs, inputs, strict=True)
        for axis, extent in enumerate(port.type.shape)
        if is_ranged(extent)
    ]
    for _ in interface.dims:  # one that is a sum may wait for all others
        for _, _, extent, given in axes:
            solve(extent, given, known)
    _check_bounds(interface, known)
    for port, axis, extent, given in axes:
        if bind_extent(extent, known) != given:
            raise _contradiction(port, axis, given, known)
    return known


def _check_bounds(interface: Interface, known: Extents) -> None:
    for dim in interface.dims:
        if dim.name not in known:
            raise UsageError(f"the inputs do not tell the extent of dimension {dim.name!r}")
        extent = known[dim.name]
        if not dim.low <= extent <= dim.high or extent % dim.step:
            raise UsageError(
                f"dimension {dim.name!r} is {extent}, but the program is for {dim.range_text}",
                help=f"compile it with other bounds: dims={{{dim.name!r}: (FIRST, LAST)}}",
            )


def _contradiction(port: Port, axis: int, given: int, known: Extents) -> UsageError:
    wanted = bind_extent(port.type.shape[axis], known)
    return UsageError(
        f"axis {axis} of input {port.name!r} has {given} elements, but {port.type.shape[axis]} "
        f"is {wanted} with {run_text(known)}"
    )
