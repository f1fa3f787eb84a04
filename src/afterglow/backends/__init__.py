"""Backends: what turns a planned program into something that runs."""

from collections.abc import Callable

from afterglow.backends.backend import Backend, Executable, Footprint, Settings
from afterglow.backends.cpu.backend import Cpu
from afterglow.backends.interpreter import INTERPRETER, PRIMITIVES

BACKENDS: dict[str, Callable[[Settings], Backend]] = {
    "cpu": Cpu.of,
    "interpreter": lambda settings: INTERPRETER,
    "primitives": lambda settings: PRIMITIVES,
}
"""How to make every backend, by its name."""

__all__ = ["BACKENDS", "Backend", "Executable", "Footprint", "Settings"]
