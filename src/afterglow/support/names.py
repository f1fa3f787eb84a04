"""Names that are unique within a scope and can be written in the text forms."""

from __future__ import annotations

import json
import re

PLAIN_NAME = r"[A-Za-z0-9_.$/:\-]*[A-Za-z0-9_.$/\-]"
"""Names that need no quotes; a colon may stand inside, not at the end."""

_PLAIN = re.compile(PLAIN_NAME + r"\Z")


class NameScope:
    """Allocates names that are unique in a scope.

    >>> scope = NameScope()
    >>> scope.claim("conv"), scope.claim("conv"), scope.claim("conv")
    ('conv', 'conv_1', 'conv_2')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def claim(self, name: str) -> str:
        """Return `name`, or `name_N` with an N that was never used for it."""
        free, count = name, self._next.get(name, 0)
        while free in self._taken:
            count += 1
            free = f"{name}_{count}"
        self._next[name] = count
        self._taken.add(free)
        return free

    def release(self, name: str) -> None:
        """Make `name` free again."""
        self._taken.discard(name)

    def __contains__(self, name: str) -> bool:
        return name in self._taken


def spell(sigil: str, name: str) -> str:
    """Return the name as the text forms write it: bare if plain, else as a quoted string."""
    return sigil + (name if _PLAIN.match(name) else json.dumps(name))
