"""Runs in which every thread logs its steps, as machine code sees them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from afterglow.backends.capabilities import StepSpan
from afterglow.backends.cpu.codegen.pool import recording_pool
from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.native.convention import ALIGNMENT, LOG_ENTRY_BYTES, LOG_HEAD_BYTES
from afterglow.runtime.native.executable import Context, NativeExecutable
from afterglow.runtime.native.pool import Pool
from afterglow.runtime.native.program import Host, Native, NativeProgram
from afterglow.types import Array


class RecordingExecutable(NativeExecutable):
    """A program whose steps belong to one instruction each; `spans` are those of the last run.

    Its threads are those of a pool of its own, with the same code but for reading the clock three
    times a step.
    """

    def __init__(self, native: NativeProgram, threads: int | None) -> None:
        steps = max((part.steps for part in native.parts if isinstance(part, Native)), default=0)
        self.log_bytes = _aligned(LOG_HEAD_BYTES + steps * LOG_ENTRY_BYTES)
        scratch = _aligned(native.scratch_bytes)
        super().__init__(replace(native, scratch_bytes=self.log_bytes + scratch), threads)
        self._run_alone = self._pool().run_alone
        self.spans: list[StepSpan] = []

    def record(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> float:
        """Run once; return the seconds."""
        self.spans = []
        started = perf_counter()
        self.run(inputs, states)
        return perf_counter() - started

    def run_part(self, part: Native | Host, context: Context, host: object) -> None:
        """Run machine code, or have the host run an instruction; note when."""
        started = perf_counter()
        super().run_part(part, context, host)  # type: ignore[arg-type]  # what `start_host` gave
        if isinstance(part, Host):
            ended = perf_counter()
            self.spans.append(StepSpan(part.index, 0, started, ended, ended))
        else:
            self.spans.extend(self._logged(part, context))

    def _pool(self) -> Pool:
        return recording_pool()

    def _run_native(self, part: Native, context: Context) -> None:
        for thread in range(self.threads):
            self._head(context, thread)[:] = [LOG_HEAD_BYTES, self.log_bytes]
        super()._run_native(part, context)

    def _head(self, context: Context, thread: int) -> ctypes.Array[ctypes.c_int64]:
        """The first two words of a thread's log."""
        return (ctypes.c_int64 * 2).from_address(context.scratch + thread * context.scratch_bytes)

    def _logged(self, part: Native, context: Context) -> Iterator[StepSpan]:
        """The entries of all threads that took part."""
        for thread in range(self.threads):
            head = self._head(context, thread)
            count = (head[0] - LOG_HEAD_BYTES) // LOG_ENTRY_BYTES
            if not count:
                continue  # it was asleep until the others were done
            first = ctypes.addressof(head) + LOG_HEAD_BYTES
            entries = (ctypes.c_int64 * (3 * count)).from_address(first)
            times = np.array(entries, np.int64).reshape(-1, 3) * 1e-9
            for place, (begin, work_end, end) in zip(part.step_places, times, strict=True):
                yield StepSpan(place, thread, float(begin), float(work_end), float(end))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
