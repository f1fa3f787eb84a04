"""Limits of a check: memory, by the system; time, measured from outside."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 2 << 30
MOST_SECONDS = 20.0
MOST_WAITING = 60.0
"""Seconds of waiting for something other than a processor: a busy machine is no hang."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def address_space() -> int:
    """Bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE


def limit_memory(most: int = MOST_BYTES) -> None:
    """Let this process have so many bytes more than it has now."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + most, hard))


def processor_seconds(process: int) -> float:
    """Seconds that the threads of a process have computed for."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended
    return (int(fields[11]) + int(fields[12])) / _TICKS


def queueing_seconds(process: int) -> float:
    """Seconds that a process was ready to compute while others had the processors."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # it has ended, or the system does not tell


@dataclass(frozen=True)
class Patience:
    """How long a check may take: computing, and waiting."""

    computing: float = MOST_SECONDS
    waiting: float = MOST_WAITING

    def is_over(self, computed: float, waited: float) -> bool:
        """Whether a check that took so long is a hang."""
        return computed > self.computing or waited > self.waiting
