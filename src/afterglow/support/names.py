"""Names that are unique within a scope and can be written in the text forms."""

from __future__ import annotations

import json
import re

PLAIN_NAME = r"[A-Za-z0-9_.$/:\-]*[A-Za-z0-9_.$/\-]"
"""Names that need no quotes; a colon may stand inside, not at the end."""

_PLAIN = re.compile(PLAIN_NAME + r"\Z")


class NameScope:
    """Hands out names that no one else in the scope has.

    >>> scope = NameScope()
    >>> scope.claim("conv"), scope.claim("conv"), scope.claim("conv")
    ('conv', 'conv_1', 'conv_2')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def claim(self, wish: str) -> str:
        """Return `wish`, or `wish_N` with an N that was never used for it."""
        name = wish
        count = self._next.get(wish, 0)
        while name in self._taken:
            count += 1
            name = f"{wish}_{count}"
        self._next[wish] = count
        self._taken.add(name)
        return name

    def release(self, name: str) -> None:
        """Make `name` free again."""
        self._taken.discard(name)

    def __contains__(self, name: str) -> bool:
        return name in self._taken


def spell(sigil: str, name: str) -> str:
    """Return the name as the text forms write it: bare if plain, else as a quoted string."""
    return sigil + (name if _PLAIN.match(name) else json.dumps(name))
