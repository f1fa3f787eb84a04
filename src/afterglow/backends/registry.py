"""Backends by name: those that Afterglow brings, and those of plug-ins."""

from __future__ import annotations

from afterglow.backends.backend import BackendFactory
from afterglow.backends.cpu.backend import CPU
from afterglow.backends.cuda.factory import CUDA
from afterglow.backends.interpreter.backend import INTERPRETER, PRIMITIVES
from afterglow.backends.opencl.factory import OPENCL
from afterglow.support.errors import UsageError
from afterglow.support.plugins import BACKENDS, load_plugin, plugin_names

_NEEDS = ("name", "device", "targets", "__call__")
"""The attributes of a `BackendFactory`."""
_BUILT_IN: dict[str, BackendFactory] = {
    factory.name: factory for factory in (CPU, INTERPRETER, PRIMITIVES, OPENCL, CUDA)
}


def backend_names() -> list[str]:
    """The names of all backends, the default first."""
    return [*_BUILT_IN, *plugin_names(BACKENDS)]


def backend_factory(name: str) -> BackendFactory:
    """What makes the backend of a name; the package that brings it is imported then."""
    found: BackendFactory | None = _BUILT_IN.get(name) or load_plugin(BACKENDS, name, _NEEDS)
    if found is None:
        raise UsageError(f"no backend {name!r}", help=f"there are {', '.join(backend_names())}")
    return found
