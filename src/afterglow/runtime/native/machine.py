"""This machine, as code that is to run on it sees it: what it can do, and how many cores we have.

All of it is read from the system. LLVM knows it too, but takes longer to load than a model.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from afterglow.runtime.native.control_groups import granted_cores, granted_memory
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

_CPU_INFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
TILES = "amx-tile"
"""The feature whose registers a process has to ask the system for."""
_ARCH_PRCTL, _REQUEST_STATE, _TILE_STATE = 158, 0x1023, 18
"""Linux's numbers: the system call of x86-64, asking for a state, the state of tiles."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

_ARCHITECTURES = {
    "x86_64": "x86",
    "amd64": "x86",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "arm": "arm",
    "thumb": "arm",
    "riscv32": "riscv32",
    "riscv64": "riscv64",
    "wasm32": "wasm",
}
"""By how a triple begins; the longer beginnings stand first."""

_LINUX_NAMES = {
    "64bit": "lm",
    "bmi": "bmi1",
    "crc32": "sse4_2",
    "lzcnt": "abm",
    "pclmul": "pclmulqdq",
    "prfchw": "3dnowprefetch",
    "rdrnd": "rdrand",
    "sahf": "lahf_lm",
    "sha": "sha_ni",
    "sse3": "pni",
    "crc": "crc32",
    "dotprod": "asimddp",
    "fp-armv8": "fp",
    "fullfp16": "asimdhp",
    "lse": "atomics",
    "neon": "asimd",
    "rcpc": "lrcpc",
    "rdm": "asimdrdm",
}
"""Features that Linux calls otherwise than LLVM, by LLVM's names."""


@dataclass(frozen=True)
class Needs:
    """What code needs of the machine that it runs on."""

    target: str
    """What the code was made for, by name."""
    architecture: str
    features: tuple[str, ...]
    """LLVM's names of them."""


def check_runs_here(needs: Needs) -> None:
    """Raise if this machine lacks something that code needs, or the system withholds it."""
    missing = _missing(needs)
    if not missing and TILES in needs.features and not allows_tiles():
        missing = [f"{TILES}, which the system does not allow"]
    if missing:
        raise UsageError(
            f"the code for {needs.target} does not run here: it needs {', '.join(missing)}",
            help="compile the model for this machine, or for a target that both have",
        )


def unlisted_features(needs: Needs) -> list[str]:
    """What code needs and the system does not list for this machine; nothing if it runs here.

    Unlike `check_runs_here` it asks nobody else: a feature that the system has no name for counts.
    """
    own = own_architecture()
    if own is not None and own != needs.architecture:
        return [f"the architecture {needs.architecture}"]
    listed = listed_features()
    return [name for name in needs.features if _plain(_LINUX_NAMES.get(name, name)) not in listed]


@cache
def allows_tiles() -> bool:
    """Whether this process may use the registers of AMX: on Linux, it has to ask for them once."""
    if own_architecture() != "x86" or sys.platform != "linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return bool(library.syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_STATE) == 0)


def architecture_of(triple: str) -> str | None:
    """The family of machines that a triple is of; None if it is not known."""
    begins = (name for name in _ARCHITECTURES if triple.startswith(name))
    return _ARCHITECTURES.get(next(begins, ""))


@cache
def own_architecture() -> str | None:
    """The family of machines that this one is of."""
    return architecture_of(os.uname().machine.lower()) if hasattr(os, "uname") else None


def _missing(needs: Needs) -> list[str]:
    unlisted = unlisted_features(needs)
    if not unlisted or not {*unlisted} <= {*needs.features}:
        return unlisted
    return sorted({*unlisted} - _llvm_features())


@cache
def listed_features(path: Path = _CPU_INFO) -> frozenset[str]:
    """What the system says that this processor has, in plain spelling; empty if it says nothing."""
    for line in _first_processor(path):
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(map(_plain, value.split()))
    return frozenset()


def processor() -> str:
    """A text that tells this processor from every other kind: it changes with nothing else."""
    varying = (
        "processor",
        "cpu MHz",
        "bogomips",
        "BogoMIPS",
        "apicid",
        "initial apicid",
        "core id",
    )
    lines = _first_processor(_CPU_INFO)
    return "\n".join(line for line in lines if line.partition(":")[0].strip() not in varying)


def processor_name(path: Path = _CPU_INFO) -> str:
    """What the maker calls this processor; its architecture if the system does not say."""
    named = ("model name", "Model", "uarch")
    for line in _first_processor(path):
        key, _, value = line.partition(":")
        if key.strip() in named:
            return value.strip()
    return own_architecture() or "unknown processor"


def _first_processor(path: Path) -> list[str]:
    """What the system says about the first processor; of hundreds, all would take long to read."""
    try:
        with path.open("rb", buffering=0) as file:
            text = file.read(1 << 14).decode(errors="replace")
    except OSError:
        return []
    return text.partition("\n\n")[0].splitlines()


def _plain(name: str) -> str:
    """A feature's name without what separates its parts: Linux and LLVM do not agree on that."""
    return name.translate(_SEPARATORS)


_SEPARATORS = dict.fromkeys(map(ord, "._-"))


def _llvm_features() -> set[str]:
    """LLVM's own answer, for features whose names in the system are not known here.

    None without LLVM, in an installation that only runs models.
    """
    try:
        import llvmlite.binding as llvm  # noqa: PLC0415  slow to load, and hardly ever needed
    except ModuleNotFoundError:
        return set()
    return {name for name, is_there in llvm.get_host_cpu_features().items() if is_there}


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


def cores_per_cache(level: int, folder: Path = _CACHES) -> int | None:
    """The number of cores that share a data cache of a level; None if the system does not tell."""
    for index in sorted(folder.glob("index*")):
        try:
            texts = [(index / name).read_text().strip() for name in ("level", "shared_cpu_list")]
            if int(texts[0]) == level:
                return sum(map(_cpus, texts[1].split(",")))
        except (OSError, ValueError):
            continue
    return None


def _cpus(text: str) -> int:
    """How many a range has, such as 0-7 or 3."""
    first, _, last = text.partition("-")
    return int(last or first) - int(first) + 1


def _bytes(size: str) -> int:
    unit = _UNITS.get(size[-1:], 1)
    return int(size.rstrip("KMG")) * unit


def usable_cores() -> int:
    """The number of cores that this process may use, by its affinity and its groups' quotas."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quota = granted_cores()
    return max(1, allowed if quota is None else min(allowed, round(quota)))


def usable_memory() -> int:
    """Bytes of memory that this process may use: of the machine, by its groups' and own limit."""
    granted = granted_memory()
    limits = [_physical_memory(), *_process_limits()]
    return min(limits if granted is None else [granted, *limits])


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def _process_limits() -> Iterator[int]:
    """The limit of the address space, if there is one."""
    if resource is not None:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit


def interruptions() -> int:
    """How often others took the processor from this process so far; 0 where it is not counted."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
