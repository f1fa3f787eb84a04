"""Stop strings: finding them in a text that comes in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Passes on the text of a sequence until one of some strings comes.

    What may be the beginning of such a string is held back until the next pieces decide it.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """What can be passed on after one more piece; sets `found` once a stop string is there."""
        if not self._strings or self.found:
            return "" if self.found else text
        self._held += text
        places = [place for s in self._strings if (place := self._held.find(s)) >= 0]
        self.found = bool(places)
        end = min(places) if places else len(self._held) - self._undecided()
        passed, self._held = self._held[:end], "" if self.found else self._held[end:]
        return passed

    def finish(self) -> str:
        """What is left when no more text comes."""
        left, self._held = self._held, ""
        return left

    def _undecided(self) -> int:
        """Length of the longest end of the text that a stop string begins with."""
        longest = min(max(map(len, self._strings)) - 1, len(self._held))
        for length in range(longest, 0, -1):
            if any(s.startswith(self._held[-length:]) for s in self._strings):
                return length
        return 0
