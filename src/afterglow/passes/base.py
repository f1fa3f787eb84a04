"""What a pass is."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from afterglow.graph import Function


class Property(Enum):
    """Something that holds of a function after some pass, and that others need."""

    CHANNELS_LAST = "channels-last"
    LOWERED = "lowered"


class Pass:
    """A transformation of one function that leaves it valid and its meaning the same."""

    name: ClassVar[str] = ""
    requires: ClassVar[frozenset[Property]] = frozenset()
    provides: ClassVar[frozenset[Property]] = frozenset()

    def run(self, function: Function) -> bool:
        """Transform the function; say whether anything changed."""
        raise NotImplementedError
