"""What needs the old value of a state comes before what changes it."""

from __future__ import annotations

from afterglow.lowering.scheduling.problem import Step
from afterglow.lowering.scheduling.states import StateChange, with_state_changes


def test_a_change_comes_after_all_that_touch_the_state_before() -> None:
    steps = [Step((0,)), Step((0,), (0,)), Step((1,), (0,))]
    order, ordered = with_state_changes(steps, [StateChange(1, frozenset([2]))])
    assert order == [0, 2, 1]
    assert ordered == (Step((0,)), Step((1,), (0,)), Step((0,), (0, 1)))


def test_joined_steps_are_renumbered_as_well() -> None:
    steps = [Step((0,)), Step((0,), (0,), frozenset([0])), Step((1,)), Step((2,), (1,))]
    order, ordered = with_state_changes(steps, [StateChange(1, frozenset([1, 2]))])
    assert order == [0, 2, 1, 3]
    assert ordered[2] == Step((0,), (0, 1), frozenset([0]))


def test_a_change_that_others_need_before_they_touch_the_state_waits_for_nobody() -> None:
    steps = [Step((0,)), Step((1,), (0,)), Step((2,), (1,))]
    changes = [StateChange(0, frozenset([2])), StateChange(2, frozenset([0]))]
    assert with_state_changes(steps, changes)[0] == [0, 1, 2]
