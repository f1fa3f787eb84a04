"""What this machine is: its instructions, its caches, and the cores that we may use."""

from __future__ import annotations

import os
from pathlib import Path

import llvmlite.binding as llvm

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def host_triple() -> str:
    """The triple of this process."""
    return str(llvm.get_process_triple())


def host_cpu() -> str:
    """LLVM's name of this processor."""
    return str(llvm.get_host_cpu_name())


def host_features() -> tuple[str, ...]:
    """LLVM's names of the features that this processor has, sorted."""
    features = llvm.get_host_cpu_features()
    return tuple(sorted(name for name, present in features.items() if present))


def cache_sizes(folder: Path = _CACHES) -> dict[int, int]:
    """Bytes of each level's data cache, as far as the system tells."""
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = (
                (index / name).read_text().strip() for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                sizes[int(level)] = _bytes(size)
        except (OSError, ValueError):
            continue
    return sizes


def _bytes(size: str) -> int:
    unit = _UNITS.get(size[-1:], 1)
    return int(size.rstrip("KMG")) * unit


def usable_cores(folder: Path = _CONTROL_GROUPS) -> int:
    """How many cores this process may keep busy: by its affinity and by its group's quota."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quota = _quota(folder)
    return max(1, allowed if quota is None else min(allowed, round(quota)))


def _quota(folder: Path) -> float | None:
    """The share of time that the control group grants, in cores; None without a limit."""
    try:
        limit, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = (folder / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if limit == "max" or int(limit) < 0:
        return None
    return int(limit) / int(period)
