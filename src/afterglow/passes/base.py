"""What a pass is."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from afterglow.graph import Function
from afterglow.instr import Program


class Property(Enum):
    """Something that holds of a function or program after some pass, and that others need."""

    CHANNELS_LAST = "channels-last"
    LOWERED = "lowered"
    COPIES_REMOVED = "removed copies"
    STACKED = "stacks"
    KERNELS_PLANNED = "kernel plans"
    SHARED = "shared buffers"


class AnyPass:
    """What passes of functions and of programs have in common."""

    name: ClassVar[str] = ""
    requires: ClassVar[frozenset[Property]] = frozenset()
    """What must hold before it runs."""
    provides: ClassVar[frozenset[Property]] = frozenset()
    """What holds after it ran."""


class Pass(AnyPass):
    """A transformation of one function that leaves it valid and its meaning the same."""

    def run(self, function: Function) -> bool:
        """Transform the function; say whether anything changed."""
        raise NotImplementedError


class ProgramPass(AnyPass):
    """A transformation of one program that leaves it valid and its meaning the same."""

    def run(self, program: Program) -> bool:
        """Transform the program; say whether anything changed."""
        raise NotImplementedError
