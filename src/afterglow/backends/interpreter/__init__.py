"""The interpreter: runs instructions by `Op.evaluate` on the planned arena."""

from afterglow.backends.interpreter.backend import INTERPRETER, PRIMITIVES, Interpreter
from afterglow.backends.interpreter.machine import Machine, Run

__all__ = ["INTERPRETER", "PRIMITIVES", "Interpreter", "Machine", "Run"]
