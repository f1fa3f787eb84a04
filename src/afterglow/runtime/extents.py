"""The extents of a run: what the shapes of its inputs make of the dimensions of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from afterglow.runtime.buffers import host_buffer
from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.signature import TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import Array, Interface
from afterglow.types.extent import Dim, Extents, RangedExtent, dims_of, ranged
from afterglow.types.extent.samples import run_text
from afterglow.types.extent.solver import solve

Shape: TypeAlias = "tuple[int, ...] | None"
"""Of an array; None for what is none."""
Shapes: TypeAlias = tuple[Shape, ...]
"""Of several arrays."""

MOST_KNOWN = 1024
"""Shapes whose extents are remembered."""


class _Axis(NamedTuple):
    """An axis whose extent is an expression: its array by place and name, and its place there."""

    array: int
    name: str
    axis: int
    extent: RangedExtent
    dim: str
    """The name of the dimension that the extent is; empty if it is not just one."""


class ExtentReader:
    """Reads the extents of dimensions off the shapes of arrays that have ranged types.

    `growing` are states whose fill levels tell extents, behind the arrays: of those alike, one. The
    last answers are remembered, and given as the same object again.
    """

    def __init__(
        self, names: Sequence[str], types: Sequence[Shape], growing: Sequence[str] = ()
    ) -> None:
        self.dims = dims_of(*(extent for shape in types for extent in shape or ()))
        self._axes = [
            _Axis(array, name, axis, extent, _single(extent))
            for array, (name, shape) in enumerate(zip(names, types, strict=True))
            for axis, extent in enumerate(shape or ())
            if isinstance(extent, RangedExtent)
        ]
        self.growing = growing
        arrays = len(types) - len(growing)
        self._places = sorted({axis.array for axis in self._axes if axis.array < arrays})
        """The arrays with ranged axes: the shapes of others tell nothing."""
        self._known: dict[Shapes | Shape, Extents] = {}

    @staticmethod
    def of(interface: Interface) -> ExtentReader:
        """What reads the extents of a program off its inputs and the fill levels of its states."""
        shapes = {port.name: port.type.shape for port in interface.inputs}
        states = {port.level.before: port.name for port in interface.states if port.level}
        growing = tuple(states.values())
        types = [*shapes.values(), *((before,) for before in states)]
        return ExtentReader((*shapes, *growing), types, growing)

    def read(self, arrays: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> Extents:
        """The extents of all dimensions, by name; an error if one contradicts a bound or others.

        Some are read off the fill levels of states.
        """
        filled: Shapes = ()
        if self.growing:
            filled = tuple([(host_buffer(states[name]).filled,) for name in self.growing])
        if len(self._places) == 1 and not filled:  # as in most models: it is a part of every call
            key: Shapes | Shape = arrays[self._places[0]].shape
        else:
            key = (*[arrays[place].shape for place in self._places], *filled)
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        shapes = (*(array.shape for array in arrays), *filled)
        return self._known.setdefault(key, self._checked(shapes))

    def _checked(self, shapes: Shapes) -> Extents:
        extents = self._solved(shapes)
        for axis in self._axes:
            self._check(axis, _extent_at(shapes, axis), extents)
        return {dim.name: extents[dim.name] for dim in self.dims}

    def fits(self, shapes: Shapes) -> bool:
        """Whether extents within the bounds make the shapes of the axes that are expressions."""
        extents = self._solved(shapes)
        for dim in self.dims:
            if dim.name not in extents or not is_within(dim, extents[dim.name]):
                return False
        return all(axis.extent.bind(extents) == _extent_at(shapes, axis) for axis in self._axes)

    def _solved(self, shapes: Shapes) -> dict[str, int]:
        """The extents that the shapes tell, right or wrong."""
        single = [axis for axis in self._axes if axis.dim]
        known = {axis.dim: _extent_at(shapes, axis) for axis in reversed(single)}  # the first wins
        for _ in range(len(self.dims) - len(known)):  # one that is a sum may wait for all others
            for axis in self._axes:
                solve(axis.extent, _extent_at(shapes, axis), known)
        return known

    def _check(self, axis: _Axis, given: int, extents: Extents) -> None:
        for dim in axis.extent.dims:
            if dim.name not in extents:
                raise UsageError(f"the inputs do not tell the extent of dimension {dim.name!r}")
            check_extent(dim, extents[dim.name], axis.name)
        wanted = axis.extent.bind(extents)
        if wanted != given:
            raise self._contradiction(axis, given, wanted, extents)

    def _contradiction(self, axis: _Axis, given: int, wanted: int, extents: Extents) -> UsageError:
        if axis.dim:
            first = next(other for other in self._axes if other.dim == axis.dim)
            return UsageError(
                f"dimension {axis.dim!r} is {given} in axis {axis.axis} of input {axis.name!r}, "
                f"but {wanted} in axis {first.axis} of input {first.name!r}"
            )
        known = {dim.name: extents[dim.name] for dim in axis.extent.dims}
        return UsageError(
            f"axis {axis.axis} of input {axis.name!r} has {given} elements, but "
            f"{axis.extent} is {wanted} with {run_text(known)}"
        )


def _single(extent: RangedExtent) -> str:
    dim = extent.dims[0]
    return dim.name if extent == ranged(dim) else ""


def _extent_at(shapes: Shapes, axis: _Axis) -> int:
    shape = shapes[axis.array]
    assert shape is not None
    return shape[axis.axis]


def is_within(dim: Dim, extent: int) -> bool:
    """Whether a dimension may have an extent."""
    return dim.low <= extent <= dim.high and extent % dim.step == 0


def check_extent(dim: Dim, extent: int, name: str) -> None:
    """Refuse an extent of a dimension, found in the input of a name, that is out of bounds."""
    if not is_within(dim, extent):
        raise UsageError(
            f"dimension {dim.name!r} of input {name!r} is {extent}, out of its bounds "
            f"{dim.range_text}",
            help=f"compile with other bounds: dims={{{dim.name!r}: (FIRST, LAST)}} "
            f"or --dim {dim.name}=FIRST..LAST",
        )


def check_extents(info: TensorInfo, shape: Sequence[int], dims: Mapping[str, Dim]) -> None:
    """Refuse a shape of an input with an extent that is out of the bounds of its dimension."""
    for declared, extent in zip(info.shape or (), shape, strict=False):
        if isinstance(declared, str) and declared in dims:
            check_extent(dims[declared], extent, info.name)


class ShapeRange:
    """The shapes that a version takes, some of whose extents are expressions."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self._reader = ExtentReader([""] * len(shapes), shapes)

    def covers(self, given: Shapes) -> bool:
        """Whether arrays may have these shapes."""
        same = len(given) == len(self.shapes) and all(map(_agree, self.shapes, given))
        return same and self._reader.fits(given)

    def includes(self, other: ShapeRange) -> bool:
        """Whether it covers all that another one covers: the same expressions, in wider bounds."""
        if str(self.shapes) != str(other.shapes):
            return False
        return all(map(_is_wider, self._reader.dims, other._reader.dims))


def _agree(taken: Shape, given: Shape) -> bool:
    """Whether shapes are equal but for what is an expression."""
    if taken is None or given is None:
        return taken is given
    return len(taken) == len(given) and all(
        isinstance(extent, RangedExtent) or extent == have
        for extent, have in zip(taken, given, strict=True)
    )


def _is_wider(dim: Dim, other: Dim) -> bool:
    return dim.low <= other.low and other.high <= dim.high and other.step % dim.step == 0


def has_ranges(shapes: Shapes) -> bool:
    """Whether an extent is an expression."""
    return any(isinstance(extent, RangedExtent) for shape in shapes for extent in shape or ())
