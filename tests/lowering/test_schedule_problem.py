"""What an order of steps costs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.lowering.scheduling.problem import Problem, Step, Tracker
from tests.lowering.problems import peak_by_definition, problems, some_order

THOROUGH = settings(max_examples=300, deadline=None)


def chain(*sizes: int, **facts: object) -> Problem:
    """Each step reads what the one before it made."""
    steps = [Step((0,))]
    for i in range(1, len(sizes)):
        extra = {"joins": frozenset([i - 1])} if facts.get("joins") else {}
        yields = (i - 1,) if facts.get("in_place") else ()
        steps.append(Step((i - 1, i), needs=(i - 1,), yields=yields, **extra))
    return Problem(sizes, tuple(steps))


def test_a_chain_needs_two_neighbours_at_once() -> None:
    assert chain(1, 5, 3, 4).peak(range(4)) == 8


def test_in_place_a_chain_needs_the_larger_of_them() -> None:
    assert chain(6, 5, 3, 2, in_place=True).peak(range(4)) == 6


def test_nothing_larger_is_written_in_place() -> None:
    assert chain(3, 4, in_place=True).peak(range(2)) == 7


def test_what_stays_inside_a_kernel_takes_no_memory() -> None:
    assert chain(1, 5, 3, 4, joins=True).peak(range(4)) == 4


def test_a_result_that_nobody_reads_takes_memory_while_it_is_made() -> None:
    assert Problem((7,), (Step((0,)),)).peak([0]) == 7


def test_what_is_kept_stays_to_the_end() -> None:
    steps = (Step((0,)), Step((1,)))
    assert Problem((3, 4), steps).peak([0, 1]) == 4
    assert Problem((3, 4), steps, live_out=frozenset([0])).peak([0, 1]) == 7
    assert Problem((3, 4), steps, live_out=frozenset([0])).peak([1, 0]) == 4


def test_a_concatenation_lives_from_its_first_part_on() -> None:
    """Buffer 0 is the concatenation: step 0 makes a part, step 3 another one by way of 1 and 2."""
    long_way = (Step((1,)), Step((1, 2), needs=(1,)), Step((2, 0), needs=(2,)))
    problem = Problem((10, 8, 2), (Step((0,)), *long_way))
    assert problem.peak([0, 1, 2, 3]) == 10 + 8 + 2
    assert problem.peak([1, 2, 0, 3]) == 10 + 2


def test_an_operand_that_others_still_need_is_not_overwritten() -> None:
    steps = (Step((0,)), Step((0, 1), (0,), yields=(0,)), Step((0, 2), (0,), yields=(0,)))
    assert Problem((4, 4, 4), steps, live_out=frozenset([1, 2])).peak([0, 1, 2]) == 8


def test_a_sum_joins_the_summand_that_comes_last() -> None:
    """One summand is overwritten, the other never reaches memory."""
    add = Step((0, 1, 2), needs=(0, 1), joins=frozenset([0, 1]), yields=(0, 1))
    problem = Problem((4, 4, 4), (Step((0,)), Step((1,)), add))
    assert problem.peak([0, 1, 2]) == problem.peak([1, 0, 2]) == 4


@THOROUGH
@given(problems(1, 14), st.integers(0, 99))
def test_the_tracker_counts_as_defined(problem: Problem, seed: int) -> None:
    order = some_order(problem, seed)
    assert problem.peak(order) == peak_by_definition(problem, order)


@THOROUGH
@given(problems(1, 20), st.integers(0, 99))
def test_going_back_restores_everything(problem: Problem, seed: int) -> None:
    tracker = Tracker(problem)
    facts = tracker.live, list(tracker.left), list(tracker.missing), list(tracker.has_run)
    moves = tracker.run_all(some_order(problem, seed))
    assert sorted(step for move in moves for step in move.stack) == [*range(len(problem.steps))]
    assert tracker.live == sum(problem.sizes[buffer] for buffer in problem.live_out)
    for move in reversed(moves):
        tracker.undo(move)
    assert facts == (tracker.live, tracker.left, tracker.missing, tracker.has_run)
