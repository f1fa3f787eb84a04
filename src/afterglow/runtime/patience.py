"""Versions that are made once they are worth it; until then, what they do is interpreted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from afterglow.runtime.versions import Shapes, Versions, VersionT

FEW = 4
"""So many versions are made soon: most often there are no others."""

SOON = 8
"""How often one of the first few is asked for before it is made."""

LATE = 40
"""How often each further one is: by then it has cost about what making it will."""

_REMEMBERED = 1024
"""Of so many shapes it is known how often they were asked for."""


class PatientVersions(Versions[VersionT]):
    """Versions of something whose shapes may change all the time.

    Calls are counted rather than timed, so that it depends on them alone which bits come out.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._made = 0
        self._asked: OrderedDict[Shapes, int] = OrderedDict()

    def find_if_worth(
        self,
        arrays: Mapping[str, Any],
        names: Iterable[str],
        make: Callable[[Mapping[str, Any]], VersionT],
    ) -> VersionT | None:
        """The version for arrays; None if there is none, and it is not yet worth making."""
        names = [*names]
        with self._lock:
            key = self.key(arrays, names)
            if key not in self._versions and not self._is_worth(key.shapes):
                return None
            return self.find(arrays, names, make)

    def _is_worth(self, shapes: Shapes) -> bool:
        """Whether a version is to be made; if so, it counts as made."""
        asked = self._asked.pop(shapes, 0) + 1
        if asked >= (SOON if self._made < FEW else LATE):
            self._made += 1
            return True
        self._asked[shapes] = asked
        if len(self._asked) > _REMEMBERED:
            self._asked.popitem(last=False)
        return False
