"""Plug-ins of other packages, found through their entry points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from traceback import extract_tb
from typing import Any

from afterglow.support.errors import AfterglowError, UsageError

BACKENDS, DEVICES = "afterglow.backends", "afterglow.devices"
FRONT_ENDS = "afterglow.frontends"
"""Groups of entry points: each is a `BackendFactory`, a `Device` or a `FrontEnd`."""
_ADDED: dict[tuple[str, str], Any] = {}
"""What was added in this process, by group and name."""


def add_plugin(group: str, plugin: Any) -> None:
    """Offer something in a group for as long as this process lasts, as an installed package does.

    Another of the same name is replaced. Models that are compiled with it are not cached on disk.
    """
    _ADDED[group, plugin.name] = plugin


def is_added(group: str, name: str) -> bool:
    """Whether a plug-in was added in this process, rather than installed."""
    return (group, name) in _ADDED


def plugin_names(group: str) -> list[str]:
    """The names under which packages offer something in a group of entry points."""
    return sorted({*_entry_points(group), *(name for place, name in _ADDED if place == group)})


def load_plugin(group: str, name: str, needs: Sequence[str]) -> Any:
    """What a package offers under a name; None if there is no such entry point.

    An error that names the package and the entry point, if it cannot be imported, or lacks one of
    the attributes that it needs.
    """
    if is_added(group, name):
        return _ADDED[group, name]
    point = _entry_points(group).get(name)
    if point is None:
        return None
    try:
        found = point.load()
    except Exception as error:  # whatever the code of a stranger raises
        raise _broken(point, f"{type(error).__name__}: {_first_line(error)}") from error
    missing = [attribute for attribute in needs if not hasattr(found, attribute)]
    if missing:
        raise _broken(point, f"it has no {missing[0]!r}")
    if found.name != name:
        raise _broken(point, f"it calls itself {found.name!r}")
    return found


def plugin_module(group: str, name: str) -> str:
    """The module that a plug-in is imported from; an empty text if there is no such plug-in."""
    point = _entry_points(group).get(name)
    return "" if point is None else point.module


@contextmanager
def plugin_failures(plugins: str, kind: type[AfterglowError]) -> Iterator[None]:
    """Turn what the code of plug-ins raises into an error that names them, and where it failed."""
    try:
        yield
    except (AfterglowError, MemoryError):
        raise
    except Exception as error:  # whatever the code of a stranger raises
        *_, last = extract_tb(error.__traceback__)
        raise kind(
            f"{plugins} failed: {type(error).__name__}: {_first_line(error)}",
            where=f"{last.filename}, line {last.lineno}, in {last.name}",
            help="repair the package that brings it, or use another backend",
        ) from error


def _broken(point: Any, why: str) -> UsageError:
    package = "a package" if point.dist is None else f"package {point.dist.name!r}"
    return UsageError(
        f"{point.name!r} of {package} cannot be used: {why}",
        where=f"entry point {point.name} = {point.value} in group {point.group}",
        help="repair the package or uninstall it",
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


@cache
def _entry_points(group: str) -> dict[str, Any]:
    # here, because it takes longer to import than a saved model to load
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {point.name: point for point in entry_points(group=group)}
