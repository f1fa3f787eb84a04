"""A team of one thread that notes how long each step of a run takes."""

from __future__ import annotations

import ctypes
from time import perf_counter

_ADDRESS, _COUNT = ctypes.c_void_p, ctypes.c_ssize_t
_STEP = ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS, _COUNT, _COUNT)
_PARALLEL_FOR = ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS, _ADDRESS, _COUNT, _COUNT)


class TimedTeam:
    """What the main function of a program is given, so that its steps are timed one by one.

    `scratch` is the address of memory that kernels use. A step's time has the microsecond in it
    that Python takes to call machine code.
    """

    def __init__(self, scratch: int) -> None:
        self.times: list[tuple[float, float]] = []
        """When each step began and ended, in the order in which they ran."""
        self._scratch = scratch
        self._parallel_for = _PARALLEL_FOR(self._run_step)
        self._words = (_ADDRESS * 1)(ctypes.cast(self._parallel_for, _ADDRESS))
        self.address = ctypes.addressof(self._words)

    @property
    def seconds(self) -> list[float]:
        """Of each step."""
        return [ended - began for began, ended in self.times]

    def _run_step(self, team: int, step: int, bases: int, units: int, chunks: int) -> None:
        run = _STEP(step)
        started = perf_counter()
        run(bases, self._scratch, 0, units)
        self.times.append((started, perf_counter()))
