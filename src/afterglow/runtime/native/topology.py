"""The cores of this machine, as Linux tells: memory nodes, shared caches, kinds of cores."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from afterglow.support.lazy_dataclass import dataclass

SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True)
class Core:
    """A core as the system counts them, with what it shares."""

    number: int
    node: int = 0
    """The memory that is near."""
    cache: int = 0
    """The first core with the same last cache."""
    twin: int = 0
    """The first core with the same arithmetic units: itself, unless it is a second thread."""
    capacity: int = 0
    """How fast it is, in any unit; 0 if the system does not say."""

    @property
    def is_second(self) -> bool:
        """Whether it shares its arithmetic units with an earlier one."""
        return self.number != self.twin


def own_cores() -> tuple[Core, ...]:
    """The cores that this thread may use; without names on systems that have no affinity."""
    if not hasattr(os, "sched_getaffinity"):
        return tuple(Core(number, twin=number) for number in range(os.cpu_count() or 1))
    return read_cores(os.sched_getaffinity(0))


def read_cores(allowed: Collection[int], system: Path = SYSTEM) -> tuple[Core, ...]:
    """Those of the cores that are allowed, by number; what the system does not say is one."""
    nodes = _nodes(system / "node")
    return tuple(_core(number, nodes, allowed, system) for number in sorted(allowed))


def _core(number: int, nodes: dict[int, int], allowed: Collection[int], system: Path) -> Core:
    folder = system / "cpu" / f"cpu{number}"
    twins = _first(_list(folder / "topology" / "thread_siblings_list"), allowed, number)
    shared = _list(_last_cache(folder / "cache") / "shared_cpu_list")
    return Core(
        number,
        nodes.get(number, 0),
        _first(shared, allowed, -1),
        twins,
        _number(folder / "cpu_capacity") or _number(folder / "cpufreq" / "cpuinfo_max_freq"),
    )


def _nodes(folder: Path) -> dict[int, int]:
    """The node of each core."""
    found: dict[int, int] = {}
    for node in folder.glob("node[0-9]*"):
        found |= dict.fromkeys(_list(node / "cpulist"), int(node.name.removeprefix("node")))
    return found


def _last_cache(folder: Path) -> Path:
    """The folder of the largest level."""
    levels = {_number(index / "level"): index for index in sorted(folder.glob("index[0-9]*"))}
    return levels[max(levels)] if levels else folder


def _first(numbers: Collection[int], allowed: Collection[int], otherwise: int) -> int:
    return min((number for number in numbers if number in allowed), default=otherwise)


def _list(file: Path) -> list[int]:
    """What a file such as `0-3,8-11` counts up."""
    return list(_counted(_text(file)))


def _counted(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last or first).isdigit():
            yield from range(int(first), int(last or first) + 1)


def _number(file: Path) -> int:
    text = _text(file)
    return int(text) if text.isdigit() else 0


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
