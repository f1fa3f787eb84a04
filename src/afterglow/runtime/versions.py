"""Versions of a model, kept under the shapes and values that they were compiled for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from threading import RLock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

SPECIALISATIONS = 16
"""How many versions for different shapes a model keeps; the least recently used goes."""


class _DependsOnValues(Protocol):
    @property
    def value_inputs(self) -> frozenset[str]:
        """The inputs whose values it was compiled for."""


VersionT = TypeVar("VersionT", bound=_DependsOnValues)


class Versions(Generic[VersionT]):
    """A bounded number of versions, each made when its shapes are first seen.

    `names` are the arrays whose shapes tell versions apart. Which of them must have the same values
    as well is learnt from the versions.
    """

    def __init__(self, most: int = SPECIALISATIONS) -> None:
        self.most = most
        self.value_inputs: frozenset[str] = frozenset()
        self._versions: OrderedDict[Hashable, VersionT] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._versions)

    def all(self) -> list[VersionT]:
        """Every version, the one that was asked for last at the end."""
        return [*self._versions.values()]

    def keep(self, version: VersionT, shapes: Iterable[Any]) -> None:
        """Have a version for some shapes, as if it had been asked for."""
        with self._lock:
            self._versions[tuple(shapes), ()] = version

    def find(
        self,
        arrays: Mapping[str, Any],
        names: Iterable[str],
        make: Callable[[Mapping[str, Any]], VersionT],
    ) -> VersionT:
        """The version for arrays, made if there is none."""
        shapes = tuple([getattr(arrays[name], "shape", None) for name in names])
        with self._lock:
            key = (shapes, self._values(arrays))
            found = self._versions.get(key)
            if found is None:
                found = make(arrays)
                if not found.value_inputs <= self.value_inputs:
                    self.value_inputs |= found.value_inputs
                    self._versions.clear()
                key = (shapes, self._values(arrays))
                self._versions[key] = found
                if len(self._versions) > self.most:
                    self._versions.popitem(last=False)
            self._versions.move_to_end(key)
            return found

    def _values(self, arrays: Mapping[str, Any]) -> Hashable:
        return tuple(_content(arrays[name]) for name in sorted(self.value_inputs))


def _content(value: Any) -> Hashable:
    """Something that is equal for equal values."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_content, value))
    if not isinstance(value, np.ndarray):
        return repr(value)
    elements = repr(value.tolist()) if value.dtype == object else value.tobytes()
    return value.dtype, value.shape, elements
