"""Nodes that a user names: by the name in the model, by that in the graph, or by patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from afterglow.graph import Node
from afterglow.support.errors import UsageError


def is_named(node: Node, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits a name of a node."""
    return any(_fits(name, pattern) for name in (node.origin, node.name) for pattern in patterns)


def check_named(patterns: Sequence[str], nodes: Iterable[Node], what: str) -> None:
    """Raise if a pattern fits none of the nodes, which are `what`."""
    both = (name for node in nodes for name in (node.origin, node.name) if name)
    names = list(dict.fromkeys(both))
    for pattern in patterns:
        if not any(_fits(name, pattern) for name in names):
            near = get_close_matches(pattern, names, 3) or names[:3]
            raise UsageError(
                f"no {what} is called {pattern!r}",
                help=f"there are {', '.join(near)}{' …' if len(near) < len(names) else ''}",
            )


def _fits(name: str, pattern: str) -> bool:
    """Whether a name is what a pattern says, or fits its stars; names may have brackets."""
    return name == pattern or fnmatchcase(name, pattern)
