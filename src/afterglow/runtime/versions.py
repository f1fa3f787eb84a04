"""A cache of a model's versions, by the shapes and values that they were compiled for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from threading import RLock
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from afterglow.runtime.content import Content, content_of
from afterglow.runtime.extents import Shape, ShapeRange, Shapes, has_ranges
from afterglow.runtime.signature import TensorInfo

SPECIALISATIONS = 16
"""How many versions for different shapes a model keeps; the least recently used goes."""

_REMEMBERED = 1024
"""For how many keys it is remembered which ranged version covers them."""


class _DependsOnValues(Protocol):
    @property
    def value_inputs(self) -> frozenset[str]:
        """The inputs whose values it was compiled for."""

    @property
    def unbound(self) -> frozenset[str]:
        """Inputs whose values no version depends on any more: there were too many of them."""

    @property
    def ranged_shapes(self) -> Shapes | None:
        """The shapes that it takes, if some of their extents are ranged."""


VersionT = TypeVar("VersionT", bound=_DependsOnValues)


class Key(NamedTuple):
    """What a version was compiled for: shapes, and the values of inputs on which it depends.

    Extents of the shapes may be ranged.
    """

    shapes: Shapes
    values: tuple[Content, ...] = ()


class Versions(Generic[VersionT]):
    """A bounded number of versions, each made when shapes come that none of the others takes.

    `names` are the arrays whose shapes tell versions apart. Which of them must have the same values
    as well is learnt from the versions.
    """

    def __init__(self, most: int = SPECIALISATIONS) -> None:
        self.most = most
        self.value_inputs: frozenset[str] = frozenset()
        self._versions: OrderedDict[Key, VersionT] = OrderedDict()
        self._ranges: dict[Key, ShapeRange] = {}
        """What those versions cover whose shapes are ranged."""
        self._covered: dict[Key, Key] = {}
        """The ranged versions that covered keys before."""
        self._lock = RLock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Versions[VersionT]:
        """The same versions, with states of their own."""
        with self._lock:
            copied, versions = copy(self), self._versions.items()
            copied._versions = OrderedDict((key, deepcopy(v, memo)) for key, v in versions)
            copied._ranges, copied._covered = dict(self._ranges), dict(self._covered)
        copied._lock = RLock()
        return copied

    def __len__(self) -> int:
        return len(self._versions)

    def all(self) -> list[VersionT]:
        """Every version, the one that was asked for last at the end."""
        return [*self._versions.values()]

    def items(self) -> list[tuple[Key, VersionT]]:
        """The same, each with what it was compiled for."""
        return [*self._versions.items()]

    def keep(self, key: Key, version: VersionT) -> None:
        """Have a version, as if it had been asked for, instead of all that it includes."""
        with self._lock:
            if has_ranges(key.shapes):
                self._drop_included(key)
                self._ranges[key] = ShapeRange(key.shapes)
            self._versions[key] = version
            self._covered.clear()
            while len(self._versions) > self.most:
                self._ranges.pop(self._versions.popitem(last=False)[0], None)

    def _drop_included(self, key: Key) -> None:
        """Drop the ranged versions for whose shapes there is one with wider bounds from now on."""
        wider = ShapeRange(key.shapes)
        for old, taken in [*self._ranges.items()]:
            if old.values == key.values and wider.includes(taken):
                del self._ranges[old], self._versions[old]

    def _clear(self) -> None:
        self._versions.clear()
        self._ranges.clear()
        self._covered.clear()

    def depend_on(self, names: Iterable[str]) -> None:
        """Tell versions apart by the values of these, too."""
        self.value_inputs |= frozenset(names)

    def covering(self, key: Key) -> Key | None:
        """The key of the version that takes arrays of a key; None if there is none."""
        if key in self._versions:
            return key
        if key in self._covered:
            return self._covered[key]
        for known, taken in self._ranges.items():
            if known.values == key.values and taken.covers(key.shapes):
                if len(self._covered) == _REMEMBERED:
                    self._covered.clear()
                self._covered[key] = known
                return known
        return None

    def find(
        self,
        arrays: Mapping[str, Any],
        names: Iterable[str],
        make: Callable[[Mapping[str, Any]], VersionT],
    ) -> VersionT:
        """The version for arrays, made if there is none."""
        names = [*names]
        with self._lock:
            known = self._latest(self.key(arrays, names))
            if known is not None:
                return known
            found = make(arrays)
            if not found.value_inputs <= self.value_inputs - found.unbound:
                self.depend_on(found.value_inputs)
                self._clear()
            if not found.unbound.isdisjoint(self.value_inputs):
                self.value_inputs -= found.unbound
                self._clear()
            key = self.key(arrays, names)
            taken = found.ranged_shapes
            self.keep(key if taken is None else key._replace(shapes=taken), found)
            return found

    def _latest(self, key: Key) -> VersionT | None:
        """The version that takes arrays of a key, as the one that was asked for last."""
        known = self.covering(key)
        if known is None:
            return None
        self._versions.move_to_end(known)
        return self._versions[known]

    def find_if_hot(
        self,
        arrays: Mapping[str, Any],
        names: Iterable[str],
        make: Callable[[Mapping[str, Any]], VersionT],
    ) -> VersionT | None:
        """The same; versions that tier up return None below their threshold."""
        return self.find(arrays, names, make)

    def key(self, arrays: Mapping[str, Any], names: Iterable[str]) -> Key:
        """The key under which a version for arrays is cached."""
        shapes = tuple([shape for name in names for shape in shapes_of(arrays[name])])
        if not self.value_inputs:
            return Key(shapes)
        values = (content_of(arrays.get(name)) for name in sorted(self.value_inputs))
        return Key(shapes, tuple(values))


def by_input(inputs: Sequence[TensorInfo], shapes: Shapes) -> dict[str, Shape]:
    """The shapes of a key by the names of the inputs; None for what is no tensor."""
    found: dict[str, Shape] = {}
    left = iter(shapes)
    for info in inputs:
        shape = next(left)
        found[info.name] = None if info.dtype is None else shape
        elements = shape[0] if info.dtype is None and shape is not None else 0
        for _ in range(elements):
            next(left)
    return found


def shapes_of(value: Any) -> Shapes:
    """The shape of an array, or the length of a sequence and the shapes of its elements."""
    if isinstance(value, list):
        return ((len(value),), *(shape for element in value for shape in shapes_of(element)))
    return (getattr(value, "shape", None),)
