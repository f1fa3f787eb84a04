"""Steps come after others although they need nothing that those make."""

from __future__ import annotations

from afterglow.lowering.scheduling.late import Late, with_late_steps
from afterglow.lowering.scheduling.problem import Step


def test_a_late_step_comes_after_those_before_it() -> None:
    steps = [Step((0,)), Step((0,), (0,)), Step((1,), (0,))]
    order, ordered = with_late_steps(steps, [Late(1, frozenset([2]))])
    assert order == [0, 2, 1]
    assert ordered == (Step((0,)), Step((1,), (0,)), Step((0,), (0, 1)))


def test_joined_steps_are_renumbered_as_well() -> None:
    steps = [Step((0,)), Step((0,), (0,), frozenset([0])), Step((1,)), Step((2,), (1,))]
    order, ordered = with_late_steps(steps, [Late(1, frozenset([1, 2]))])
    assert order == [0, 2, 1, 3]
    assert ordered[2] == Step((0,), (0, 1), frozenset([0]))


def test_a_step_that_the_others_need_waits_for_nobody() -> None:
    steps = [Step((0,)), Step((1,), (0,)), Step((2,), (1,))]
    late = [Late(0, frozenset([2])), Late(2, frozenset([0]))]
    assert with_late_steps(steps, late)[0] == [0, 1, 2]
