"""Backends by name: those that Afterglow brings, and those of plug-ins."""

from __future__ import annotations

from functools import cache

from afterglow.backends.backend import BackendFactory
from afterglow.backends.cpu.backend import CPU
from afterglow.backends.interpreter.backend import INTERPRETER, PRIMITIVES
from afterglow.support.errors import UsageError
from afterglow.support.plugins import load_plugin, plugin_names

GROUP = "afterglow.backends"
"""The entry points by which a package adds backends: each is a `BackendFactory`."""

_BUILT_IN: dict[str, BackendFactory] = {
    factory.name: factory for factory in (CPU, INTERPRETER, PRIMITIVES)
}


def backend_names() -> list[str]:
    """The names of all backends, the default first."""
    return [*_BUILT_IN, *plugin_names(GROUP)]


@cache
def backend_factory(name: str) -> BackendFactory:
    """What makes the backend of a name; the package that brings it is imported then."""
    found: BackendFactory | None = _BUILT_IN.get(name) or load_plugin(GROUP, name)
    if found is None:
        raise UsageError(f"no backend {name!r}", help=f"there are {', '.join(backend_names())}")
    return found
