"""Backends: what turns a planned program into something that runs."""

from afterglow.backends.backend import Backend, Executable
from afterglow.backends.interpreter import INTERPRETER, PRIMITIVES

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (INTERPRETER, PRIMITIVES)}
"""Every backend by its name."""

__all__ = ["BACKENDS", "Backend", "Executable"]
