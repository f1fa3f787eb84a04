"""The interpreter: runs instructions by `Op.evaluate` on the planned arena."""

from afterglow.backends.interpreter.machine import Machine, Run

__all__ = ["Machine", "Run"]
