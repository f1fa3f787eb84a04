"""Versions that are compiled once they are asked for often enough, and interpreted until then."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from afterglow.runtime.extents import Shapes
from afterglow.runtime.versions import Versions, VersionT

EARLY_VERSIONS = 4
"""How many versions tier up at the first threshold: most often there are no others."""

EARLY_THRESHOLD = 8
"""How often one of the first versions is asked for before it is compiled."""

LATER_THRESHOLD = 40
"""How often each further one is: by then interpreting has cost about what compiling will."""

_REMEMBERED = 1024
"""How many shapes are remembered with the number of calls that asked for them."""


class TieredVersions(Versions[VersionT]):
    """Versions of something whose shapes may change with every call.

    Calls are counted rather than timed, so that the same calls give the same bits.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._made = 0
        self._asked: OrderedDict[Shapes, int] = OrderedDict()

    def find_if_hot(
        self,
        arrays: Mapping[str, Any],
        names: Iterable[str],
        make: Callable[[Mapping[str, Any]], VersionT],
    ) -> VersionT | None:
        """The version for arrays; None below the tier-up threshold."""
        names = [*names]
        with self._lock:
            key = self.key(arrays, names)
            known = self._latest(key)
            if known is not None or not self._is_hot(key.shapes):
                return known
            return self.find(arrays, names, make)

    def _is_hot(self, shapes: Shapes) -> bool:
        """Whether shapes have reached the threshold; if so, their version counts as made."""
        asked = self._asked.pop(shapes, 0) + 1
        if asked >= (EARLY_THRESHOLD if self._made < EARLY_VERSIONS else LATER_THRESHOLD):
            self._made += 1
            return True
        self._asked[shapes] = asked
        if len(self._asked) > _REMEMBERED:
            self._asked.popitem(last=False)
        return False
