"""Nodes that a user names: by the name in the model, by that in the graph, or by patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afterglow.graph import Node
from afterglow.support.errors import UsageError
from afterglow.support.patterns import fits, near_names


def is_named(node: Node, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits a name of a node."""
    return any(fits(name, pattern) for name in (*node.origins, node.name) for pattern in patterns)


def check_named(patterns: Sequence[str], nodes: Iterable[Node], what: str) -> None:
    """Raise if a pattern fits none of the nodes, which are `what`."""
    both = (name for node in nodes for name in (*node.origins, node.name))
    names = list(dict.fromkeys(both))
    for pattern in patterns:
        if not any(fits(name, pattern) for name in names):
            raise UsageError(
                f"no {what} is called {pattern!r}", help=f"there are {near_names(pattern, names)}"
            )
