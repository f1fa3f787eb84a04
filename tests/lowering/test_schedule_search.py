"""The search for an order: exact where it can be, never worse than simple orders, and quick."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given, settings

from afterglow.lowering.scheduling.orders import depth_first_order, greedy_order, postponed
from afterglow.lowering.scheduling.problem import Problem, Step, Tracker
from afterglow.lowering.scheduling.search import Search
from afterglow.lowering.scheduling.solve import best_order, cut_points
from tests.lowering.problems import all_orders, problems, random_problem

THOROUGH = settings(max_examples=300, deadline=None)
SLOW = 60.0
"""Seconds that the largest problems may take on a busy machine; they take a few."""


def check_order(problem: Problem, order: list[int]) -> None:
    place = {number: index for index, number in enumerate(order)}
    assert sorted(order) == [*range(len(problem.steps))]
    assert all(place[need] < place[n] for n, s in enumerate(problem.steps) for need in s.needs)


def diamond(left: tuple[int, int], right: tuple[int, int]) -> Problem:
    """A tensor of 4 bytes, two branches of two tensors each, and what reads both."""
    sizes = (4, *left, *right, 1)
    steps = (
        Step((0,)),
        Step((0, 1), (0,)),
        Step((1, 2), (1,)),
        Step((0, 3), (0,)),
        Step((3, 4), (3,)),
        Step((2, 4, 5), (2, 4)),
    )
    return Problem(sizes, steps)


def test_the_branch_that_needs_more_and_leaves_less_goes_first() -> None:
    problem = diamond(left=(2, 9), right=(30, 1))
    assert problem.peak([0, 1, 2, 3, 4, 5]) == 4 + 9 + 30
    assert problem.peak([0, 3, 4, 1, 2, 5]) == 4 + 30 + 1
    assert best_order(problem) == [0, 3, 4, 1, 2, 5]


def test_the_own_order_stays_if_it_is_as_good_as_any() -> None:
    problem = diamond(left=(5, 5), right=(5, 5))
    assert best_order(problem) == [*range(6)]


def test_branches_may_have_to_alternate() -> None:
    """Each branch goes 1, 8, 1, 9, 1: only if both stand at a 1 can one climb its hill."""
    hills = (1, 8, 1, 9, 1)
    steps = [Step((0,))]
    for branch in range(2):
        for i in range(5):
            number = 1 + 5 * branch + i
            before = number - 1 if i else 0
            steps.append(Step((before, number), (before,)))
    steps.append(Step((5, 10), (5, 10)))
    problem = Problem((6, *hills, *hills), tuple(steps))
    best = problem.peak(best_order(problem))
    assert best == min(map(problem.peak, all_orders(problem)))
    assert best < problem.peak(range(12))


def test_parts_are_cut_where_everything_passes() -> None:
    assert [*cut_points(diamond((1, 1), (1, 1)))] == [1, 6]
    chain = Problem((1,) * 4, tuple(Step((i,), (i - 1,) if i else ()) for i in range(4)))
    assert [*cut_points(chain)] == [1, 2, 3, 4]
    apart = Problem((1, 1), (Step((0,)), Step((1,))))
    assert [*cut_points(apart)] == []


def test_nothing_to_do() -> None:
    assert best_order(Problem((), ())) == []


@THOROUGH
@given(problems(1, 7))
def test_small_problems_are_solved_exactly(problem: Problem) -> None:
    order = best_order(problem)
    check_order(problem, order)
    assert problem.peak(order) == min(map(problem.peak, all_orders(problem)))


@settings(THOROUGH, max_examples=40)
@given(problems(8, 8))
def test_problems_of_eight_steps_too(problem: Problem) -> None:
    assert problem.peak(best_order(problem)) == min(map(problem.peak, all_orders(problem)))


@THOROUGH
@given(problems(1, 8))
def test_the_search_alone_is_exact_and_knows_it(problem: Problem) -> None:
    everything = range(len(problem.steps))
    search = Search(Tracker(problem), everything, runs=1_000_000)
    best = search.best_below(sum(problem.sizes) + 1)
    assert search.proven
    least = min(map(problem.peak, all_orders(problem)))
    assert least == (0 if best is None else problem.peak(best))


def test_a_search_stops_when_it_was_long_enough() -> None:
    problem = random_problem(seed=3, count=200, reach=40)
    tracker = Tracker(problem)
    search = Search(tracker, range(200), runs=1000)
    search.best_below(problem.peak(range(200)))
    assert not search.proven
    assert tracker.runs < 60_000
    assert tracker.live == 0


@settings(THOROUGH, max_examples=30)
@given(problems(10, 100))
def test_the_best_order_is_never_worse_than_simple_ones(problem: Problem) -> None:
    best = best_order(problem)
    check_order(problem, best)
    for order in (
        list(range(len(problem.steps))),
        depth_first_order(problem),
        greedy_order(problem),
    ):
        check_order(problem, order)
        check_order(problem, postponed(problem, order))
        assert problem.peak(best) <= problem.peak(order)
        assert problem.peak(best) <= problem.peak(postponed(problem, order))


@settings(THOROUGH, max_examples=8)
@given(problems(30, 60))
def test_the_same_problem_has_the_same_order(problem: Problem) -> None:
    again = Problem(problem.sizes, problem.steps, problem.live_out)
    assert best_order(problem) == best_order(again)


def test_a_tree_is_run_in_its_best_order_depth_first() -> None:
    """A tree of sums: the subtree with the higher peak first, as Sethi and Ullman showed."""
    leaves = [Step((i,)) for i in range(4)]
    sums = [Step((0, 1, 4), (0, 1)), Step((2, 3, 5), (2, 3)), Step((4, 5, 6), (4, 5))]
    problem = Problem((1, 1, 6, 7, 1, 1, 1), (*leaves, *sums))
    order = depth_first_order(problem)
    assert order == [2, 3, 5, 0, 1, 4, 6]
    assert problem.peak(order) == min(map(problem.peak, all_orders(problem))) == 14


@pytest.mark.parametrize("reach", [1, 5, 100, 10_000])
def test_ten_thousand_steps_take_seconds(reach: int) -> None:
    problem = random_problem(seed=1, count=10_000, reach=reach)
    started = perf_counter()
    order = best_order(problem)
    assert perf_counter() - started < SLOW
    assert problem.peak(order) <= problem.peak(range(10_000))
    assert problem.peak(order) <= problem.peak(depth_first_order(problem))


def test_a_chain_of_ten_thousand_steps_takes_seconds() -> None:
    steps = [Step((0,)), *(Step((i - 1, i), (i - 1,)) for i in range(1, 10_000))]
    problem = Problem((8,) * 10_000, tuple(steps))
    started = perf_counter()
    assert best_order(problem) == [*range(10_000)]
    assert perf_counter() - started < SLOW
