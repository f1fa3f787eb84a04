"""Plug-ins of other packages, found through their entry points."""

from __future__ import annotations

from functools import cache
from typing import Any


def plugin_names(group: str) -> list[str]:
    """The names under which installed packages offer something in a group of entry points."""
    return sorted(_entry_points(group))


def load_plugin(group: str, name: str) -> Any:
    """What a package offers under a name; None if there is no such entry point."""
    found = _entry_points(group).get(name)
    return None if found is None else found.load()


@cache
def _entry_points(group: str) -> dict[str, Any]:
    # here, because it takes longer to import than a saved model to load
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {point.name: point for point in entry_points(group=group)}
