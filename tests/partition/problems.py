"""Small random problems of placement, and all placements of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

from hypothesis import strategies as st

from afterglow.partition.problem import Edge, Link, Placement, Problem, Task


@st.composite
def problems(
    draw: st.DrawFn, devices: int, most: int, *, limited: bool = False, host: int = 0
) -> Problem:
    """A small random graph; one device computes everything. Some devices may have little memory.

    That is the device `host`; inputs come from the first one, which may not compute.
    """
    count = draw(st.integers(1, most))
    seconds = st.integers(0, 9).map(float)
    weights = draw(st.lists(st.integers(0, 9), max_size=4)) if limited else []
    used = st.sets(st.integers(0, len(weights) - 1)) if weights else st.just(set())
    tasks = []
    for number in range(count):
        able = draw(st.sets(st.integers(host + 1, devices - 1)))
        times = {d: draw(seconds) for d in sorted({host, *able})}
        kept = draw(st.integers(0, 3)) if limited else 0
        tasks.append(Task(f"t{number}", times, kept, tuple(sorted(draw(used)))))
    edges = [Edge(draw(st.integers(0, 5)), None, tuple(draw(st.sets(st.integers(0, count - 1)))))]
    for number in range(count):
        later = st.integers(number + 1, count - 1) if number + 1 < count else st.nothing()
        readers = tuple(draw(st.sets(later)))
        edges.append(Edge(draw(st.integers(0, 5)), number, readers, draw(st.booleans())))
    speeds = st.builds(Link, st.integers(0, 2).map(float), st.sampled_from([0.5, 1.0, 4.0]))
    ways = {(a, b): draw(speeds) for a in range(devices) for b in range(devices) if a != b}
    room = st.one_of(st.none(), st.integers(5, 40))
    memories = [draw(room) for _ in range(devices)] if limited else ()
    return Problem([f"d{d}" for d in range(devices)], tasks, edges, ways, weights, memories)


def all_placements(problem: Problem) -> Iterator[Placement]:
    """Those in which each task is on a device that computes it."""
    return product(*(sorted(task.seconds) for task in problem.tasks))


def all_stages(problem: Problem) -> Iterator[Placement]:
    """Those in which each device has consecutive tasks, and fit."""
    for placement in all_placements(problem):
        changes = sum(a != b for a, b in pairwise(placement))
        if changes == len({*placement}) - 1 and problem.fits(placement):
            yield placement


def alone(problem: Problem) -> Iterator[Placement]:
    """Those in which a device does all that it can, the host the rest, and fit."""
    for device in range(len(problem.devices)):
        placement = tuple(device if device in task.seconds else 0 for task in problem.tasks)
        if problem.fits(placement):
            yield placement
