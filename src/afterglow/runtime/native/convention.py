"""What machine code and those who call it agree on."""

from __future__ import annotations

ALIGNMENT = 64
"""Bytes that addresses of arena, constants, scratch and buffers are multiples of: a cache line,
and the widest vector there is. Nothing else defines it."""

ARENA, CONSTANTS, ALARMS, EXTENTS, FIRST_OTHER = 0, 1, 2, 3, 4
"""Places in the table of bases: inputs, outputs and states follow, then the cell of interrupts."""

EXTENT_BYTES = 8
"""The extents of a program's dimensions lie one after the other as numbers of 64 bits."""

SIGNAL_BYTES = 64
"""Size of the cell of interrupts: a byte for each signal that arrived, its number, then zeros."""
INTERRUPT = 2
"""The number of the signal at which loops end: SIGINT."""

ALARM_BYTES = 16
"""An alarm is two numbers of 64 bits: 1 once it is raised, and the number that is out of range."""
ANY_ALARM, FIRST_ALARM = 0, 1
"""What is raised with all others, and where those of the program begin."""

COUNTER_BYTES = 64
"""Counters of a run have a cache line each."""
MOST_SHARES = 16
"""Into how many shares a step is divided; of more threads, several begin with the same one."""
CHUNKS_OF_THREAD = 8
"""Chunks for each thread at most: so many that a slow core does not keep the others waiting."""
MOST_CHUNKS = 64 * CHUNKS_OF_THREAD
"""Chunks of a step at most: their number grows up to that of so many threads."""

BEGUN, SHARE_DONE, DONE = range(3)
"""Fields of an entry in the log of a thread, of each step: times in nanoseconds."""
LOG_ENTRY_BYTES = 24
LOG_HEAD_BYTES = 64
"""What lies in front of the entries of a log."""

RUN = "afterglow_run"
"""`run(main, bases, scratch, scratch_bytes, counters, steps, threads)`, by as many as are free."""
RUN_ALONE = "afterglow_run_alone"
"""`run_alone(main, bases, scratch)`, by the calling thread."""

C_LIBRARY = ("memcpy", "memmove", "memset")
"""What LLVM may call without being told to."""


def alarm_bytes(checks: int) -> int:
    """Bytes for the alarms of a program with a number of index checks; 0 without checks."""
    return (FIRST_ALARM + checks) * ALARM_BYTES if checks else 0


def counter_bytes(steps: int, threads: int) -> int:
    """Memory for the counters of a run: of each step a line, and a line for each share of it."""
    return steps * (1 + min(threads, MOST_SHARES)) * COUNTER_BYTES
