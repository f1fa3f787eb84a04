"""Every backend, by its name."""

from collections.abc import Callable

from afterglow.backends.backend import Backend, Settings
from afterglow.backends.cpu.backend import Cpu
from afterglow.backends.interpreter import INTERPRETER, PRIMITIVES

BACKENDS: dict[str, Callable[[Settings], Backend]] = {
    "cpu": Cpu.of,
    "interpreter": INTERPRETER.of,
    "primitives": PRIMITIVES.of,
}
"""How to make every backend, by its name."""
