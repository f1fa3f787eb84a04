"""Runs of tasks on one device."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.partition.cut import Run, cut


def test_tasks_in_a_line_are_cut_where_the_device_changes():
    assert cut((0, 0, 1, 0), [[], [0], [1], [2]]) == [Run(0, (0, 1)), Run(1, (2,)), Run(0, (3,))]


def test_a_device_goes_on_with_all_that_is_ready():
    # two branches that alternate in the order of the graph
    follows = [[], [0], [0], [1], [2], [3, 4]]
    assert cut((0, 0, 1, 0, 1, 0), follows) == [Run(0, (0, 1, 3)), Run(1, (2, 4)), Run(0, (5,))]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_every_task_follows_what_it_reads(data):
    count = data.draw(st.integers(1, 12))
    follows = [
        sorted(data.draw(st.sets(st.integers(0, task - 1)))) if task else []
        for task in range(count)
    ]
    placement = tuple(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    runs = cut(placement, follows)
    order = [task for run in runs for task in run.tasks]
    assert sorted(order) == list(range(count))
    place = {task: number for number, task in enumerate(order)}
    assert all(place[other] < place[task] for task in range(count) for other in follows[task])
    assert all(placement[task] == run.device for run in runs for task in run.tasks)
