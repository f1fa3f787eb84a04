"""Cores as Linux describes them, on written trees, and how streams divide them."""

from __future__ import annotations

from pathlib import Path

from afterglow.runtime.native.stream_cores import divide_cores
from afterglow.runtime.native.topology import Core, read_cores


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def two_sockets(system: Path, *, each: int = 4, threads: int = 2, caches: int = 2) -> int:
    """Write two nodes with some cores of some threads; returns how many numbers there are.

    As on servers, second threads have the numbers after all first ones.
    """
    cores = 2 * each
    for number in range(cores * threads):
        folder, core = system / "cpu" / f"cpu{number}", number % cores
        twins = ",".join(str(core + turn * cores) for turn in range(threads))
        write(folder / "topology" / "thread_siblings_list", twins)
        size = each // caches
        first = core // size * size
        shared = ",".join(
            f"{first + turn * cores}-{first + size - 1 + turn * cores}" for turn in range(threads)
        )
        for index, (level, text) in enumerate(((1, twins), (3, shared))):
            write(folder / "cache" / f"index{index}" / "level", str(level))
            write(folder / "cache" / f"index{index}" / "shared_cpu_list", text)
    for node in range(2):
        spans = [
            f"{node * each + turn * cores}-{(node + 1) * each - 1 + turn * cores}"
            for turn in range(threads)
        ]
        write(system / "node" / f"node{node}" / "cpulist", ",".join(spans))
    return cores * threads


def numbers(streams: list[tuple[Core, ...]]) -> list[list[int]]:
    return [sorted(core.number for core in stream) for stream in streams]


def test_nodes_caches_and_second_threads_are_read(tmp_path: Path) -> None:
    count = two_sockets(tmp_path)
    cores = read_cores(range(count), tmp_path)
    assert [core.node for core in cores] == [0] * 4 + [1] * 4 + [0] * 4 + [1] * 4
    assert [core.cache for core in cores[:8]] == [0, 0, 2, 2, 4, 4, 6, 6]
    assert [core.is_second for core in cores] == [False] * 8 + [True] * 8


def test_only_cores_that_may_be_used_count(tmp_path: Path) -> None:
    two_sockets(tmp_path)
    cores = read_cores({3, 9, 11}, tmp_path)
    assert [(core.number, core.twin, core.cache) for core in cores] == [
        (3, 3, 3),
        (9, 9, 9),
        (11, 3, 3),
    ]


def test_a_system_that_says_nothing_has_equal_cores(tmp_path: Path) -> None:
    assert read_cores({0, 2}, tmp_path) == (Core(0, 0, -1, 0), Core(2, 0, -1, 2))
    assert numbers(divide_cores(read_cores({0, 2}, tmp_path), 2, 1)) == [[0], [2]]


def test_what_is_not_a_list_of_cores_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "node" / "node0" / "cpulist", "0-1,x,3-,-4,7")
    assert [core.node for core in read_cores({0, 7}, tmp_path)] == [0, 0]


def test_streams_fill_caches_evenly_and_never_cross_a_node(tmp_path: Path) -> None:
    cores = read_cores(range(two_sockets(tmp_path)), tmp_path)
    assert numbers(divide_cores(cores, 4, 2)) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert numbers(divide_cores(cores, 2, 4)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert numbers(divide_cores(cores, 2, 2)) == [[0, 1], [2, 3]]


def test_streams_on_two_sockets_stay_on_one_each_for_every_size(tmp_path: Path) -> None:
    cores = read_cores(range(two_sockets(tmp_path, each=32, threads=2, caches=4)), tmp_path)
    for streams, threads in ((2, 32), (4, 16), (8, 8), (16, 4), (2, 64), (4, 32), (10, 3)):
        divided = divide_cores(cores, streams, threads)
        assert all(len({core.node for core in stream}) == 1 for stream in divided)
        assert all(len(stream) == threads for stream in divided)
        used = [core.number for stream in divided for core in stream]
        assert len(used) == len(set(used))
        if threads <= 8:
            assert all(len({core.cache for core in stream}) == 1 for stream in divided)


def test_second_threads_are_used_last_and_with_their_core(tmp_path: Path) -> None:
    cores = read_cores(range(two_sockets(tmp_path)), tmp_path)
    assert numbers(divide_cores(cores, 8, 1)) == [[n] for n in (0, 2, 4, 6, 1, 3, 5, 7)]
    assert numbers(divide_cores(cores, 8, 2)) == [[n, n + 8] for n in (0, 2, 4, 6, 1, 3, 5, 7)]


def test_fast_cores_go_together() -> None:
    cores = [Core(n, twin=n, capacity=1024 if n in (1, 3) else 400) for n in range(6)]
    assert numbers(divide_cores(cores, 3, 2)) == [[1, 3], [0, 2], [4, 5]]


def test_streams_share_cores_if_there_are_too_few() -> None:
    cores = [Core(n, twin=n) for n in range(2)]
    assert numbers(divide_cores(cores, 3, 1)) == [[0], [1], [0]]
    assert numbers(divide_cores(cores, 2, 4)) == [[0, 1], [0, 1]]
