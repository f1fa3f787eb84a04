"""What Linux's control groups grant this process: of its own group and of all groups around it.

Both versions of the interface are read. Version 2 has one tree; version 1 has one for each
controller. `/proc/self/cgroup` says where in each tree this process is. In a container that path
may be one of the host's, which cannot be seen: then only the root of the tree is read, which is the
container's own group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def granted_cores(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """The least share of time that a group grants, in cores; None without a limit."""
    newer = (_quota(_words(group / "cpu.max")) for group in _groups("", root, membership))
    older = (
        _quota([*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")])
        for group in _groups("cpu", root, membership)
    )
    return min((quota for quota in (*newer, *older) if quota is not None), default=None)


def granted_memory(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """The fewest bytes of memory that a group grants; None without a limit."""
    newer = [_words(group / "memory.max") for group in _groups("", root, membership)]
    older = [
        _words(group / "memory.limit_in_bytes") for group in _groups("memory", root, membership)
    ]
    return min((int(words[0]) for words in (*newer, *older) if _is_number(words)), default=None)


def _groups(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """The folders of this process's groups in one tree, the root's first; "" is version 2's."""
    tree = root / controller
    yield tree
    place = tree
    for name in _path_of(controller, membership):
        place = place / name
        yield place


def _path_of(controller: str, membership: Path) -> list[str]:
    """The names of groups from the root of a tree to that of this process."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(","):
            return [name for name in path.split("/") if name not in ("", "..")]
    return []


def _quota(words: list[str]) -> float | None:
    """A limit and a period as a number of cores."""
    if len(words) != 2 or not all(map(_is_whole, words)) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _is_number(words: list[str]) -> bool:
    return len(words) == 1 and _is_whole(words[0])


def _is_whole(word: str) -> bool:
    """Whether a word is a number that is not negative: otherwise there is no limit."""
    return word.isascii() and word.isdigit()
