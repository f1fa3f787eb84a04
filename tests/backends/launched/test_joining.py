"""Which steps of a program become one launch."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.launched.dependencies import Span
from afterglow.backends.launched.joining import FARTHEST, Planned, joined
from afterglow.instr import Instr

MOST = 3


def _join(kernels):
    return "+".join(kernels) if len(kernels) <= MOST and "big" not in kernels else None


def _launches(*steps):
    """Of steps `(kernel, reads, writes)`, whose bytes are pairs of the first and the end."""

    def spans(pairs):
        return [Span("arena", start, end - start) for start, end in pairs]

    planned = [
        Planned(place, Instr(), kernel, spans(reads), spans(writes))
        for place, (kernel, reads, writes) in enumerate(steps)
    ]
    return joined(planned, _join)


def _kernels(*steps):
    return [launch.kernel for launch in _launches(*steps)]


def test_neighbours_that_need_nothing_of_each_other_are_one_launch():
    assert _kernels(("a", [(0, 4)], [(8, 12)]), ("b", [(0, 4)], [(12, 16)])) == ["a+b"]


@pytest.mark.parametrize(
    ("reads", "writes"),
    [
        pytest.param([(11, 13)], [(20, 24)], id="reads what the first writes"),
        pytest.param([], [(3, 5)], id="writes what the first reads"),
        pytest.param([], [(8, 9)], id="writes what the first writes"),
    ],
)
def test_a_step_that_must_wait_for_another_has_its_own_launch(reads, writes):
    assert _kernels(("a", [(0, 4)], [(8, 12)]), ("b", reads, writes)) == ["a", "b"]


def test_a_step_overtakes_what_it_has_nothing_to_do_with():
    steps = ("a", [], [(0, 4)]), ("big", [(0, 4)], [(4, 8)]), ("b", [], [(8, 12)])
    assert _kernels(*steps) == ["a+b", "big"]


def test_a_step_does_not_overtake_what_reads_the_memory_that_it_writes():
    steps = ("a", [], [(0, 4)]), ("big", [(8, 12)], [(4, 8)]), ("b", [], [(8, 12)])
    assert _kernels(*steps) == ["a", "big", "b"]


def test_no_step_overtakes_one_of_the_host():
    steps = ("a", [], [(0, 4)]), (None, [], [(4, 8)]), ("b", [], [(8, 12)])
    assert _kernels(*steps) == ["a", None, "b"]


def test_a_step_overtakes_a_few_launches_at_most():
    between = [("big", [], [(8 + n, 9 + n)]) for n in range(FARTHEST)]
    a, b = ("a", [], [(0, 4)]), ("b", [], [(4, 8)])
    assert _kernels(a, *between[1:], b)[0] == "a+b"
    assert _kernels(a, *between, b)[0] == "a"


def test_a_launch_has_no_more_kernels_than_can_be_one():
    steps = [("a", [], [(n, n + 1)]) for n in range(5)]
    assert _kernels(*steps) == ["a+a+a", "a+a"]


def test_without_a_way_to_join_every_step_has_its_launch():
    planned = [Planned(n, Instr(), "a", [], []) for n in range(3)]
    assert [len(each.members) for each in joined(planned, None)] == [1, 1, 1]


@pytest.mark.parametrize("seed", range(20))
def test_launches_in_order_leave_the_same_memory_as_the_steps(seed):
    random = np.random.default_rng(seed)

    def spans():
        return [(start, start + int(random.integers(1, 4))) for start in random.integers(0, 40, 2)]

    steps = [(random.choice(["a", "b", "big"]), spans(), spans()[:1]) for _ in range(30)]
    wanted = _run([[(number, *step[1:])] for number, step in enumerate(steps)])
    launches = [
        [
            (each.place, *([(s.start, s.end) for s in part] for part in (each.reads, each.writes)))
            for each in launch.members
        ]
        for launch in _launches(*steps)
    ]
    assert len(launches) < len(steps)
    np.testing.assert_array_equal(_run(launches), wanted)


def _run(launches):
    """Memory in which steps write numbers made of what they read; those of a launch read first."""
    memory = np.arange(64, dtype=np.int64)
    for launch in launches:
        found = [
            (writes, hash((number, *(tuple(memory[a:b].tolist()) for a, b in reads))))
            for number, reads, writes in launch
        ]
        for writes, value in found:
            for a, b in writes:
                memory[a:b] = value
    return memory
