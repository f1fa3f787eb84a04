"""A kind of fuzzing whose examples say what is to happen."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from typing import ClassVar

from afterglow.support.errors import UsageError, VerifyError
from fuzzing.kind import Kind, Mismatch, Skipped

WORDS = ["pass", "refuse", "fault", "skip", "differ", "raise", "crash", "exit", "sleep", "grow"]
QUICK = ["pass", "refuse", "skip", "differ", "raise", "pass", "refuse"]


class Silly(Kind):
    name: ClassVar[str] = "tests.fuzzing.silly.Silly"
    suffix: ClassVar[str] = ".word"
    about: ClassVar[str] = "for tests"

    def make(self, seed: int) -> bytes:
        if seed < 0:
            raise ValueError("no example")
        return QUICK[seed % len(QUICK)].encode()

    def smaller(self, example: bytes) -> Iterator[bytes]:
        return (word.encode() for word in example.decode().split())

    def check(self, example: bytes) -> None:
        match example.decode():
            case "refuse":
                raise UsageError("no")
            case "fault":
                raise VerifyError("%x is used before it is defined")
            case "skip":
                raise Skipped("nothing to see")
            case "differ":
                raise Mismatch("numbers", "1 is not 2")
            case "raise":
                raise KeyError("oh")
            case "crash":
                ctypes.string_at(0)
            case "exit":
                os._exit(7)
            case "sleep":
                time.sleep(1000)
            case "grow":
                bytearray(3 << 30)
