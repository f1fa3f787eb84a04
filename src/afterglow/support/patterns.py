"""Names that users give: exactly, or as patterns with stars."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

MOST_NEAR = 3


def fits(name: str, pattern: str) -> bool:
    """Whether a name is what a pattern says, or fits its stars; names may have brackets."""
    return name == pattern or fnmatchcase(name, pattern)


def near_names(pattern: str, names: Sequence[str]) -> str:
    """The names most like a pattern that fits none, as a text."""
    near = get_close_matches(pattern, names, MOST_NEAR) or names[:MOST_NEAR]
    return f"{', '.join(near)}{' …' if len(near) < len(names) else ''}"
