"""Algorithms that the code chooses between by the extents of a run."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.versions import fewest_choices, samples_of, where_least
from afterglow.types.extent import Dim, bind_extent, ranged

H, W = ranged(Dim("h", 1, 9)), ranged(Dim("w", 32, 512, 32))


def test_the_first_of_the_least_costs_is_used() -> None:
    assert where_least([5, 5, 7]) == [1, 0, 0]
    assert where_least([5, 4, 4]) == [0, 1, 0]
    assert where_least([5, 4, 3]) == [0, 0, 1]


def test_where_a_cost_is_the_least_is_an_extent() -> None:
    used = where_least([3 * H, 10 + H, 15])
    for h in range(1, 10):
        exact = where_least([3 * h, 10 + h, 15])
        assert [bind_extent(each, {"h": h}) for each in used] == exact


def test_as_few_choices_are_kept_as_are_nearly_the_best_everywhere() -> None:
    assert fewest_choices([[100, 110, 300], [200, 120, 100], [110, 100, 105]]) == (0, 2)
    assert fewest_choices([[100, 110], [120, 110]]) == (0,)
    assert fewest_choices([[1, 2, 2], [2, 1, 2], [2, 2, 1]]) == (0, 1, 2)


def test_samples_are_the_ends_of_ranges_and_evenly_between() -> None:
    assert list(samples_of([H, 7, H + 1])) == [(h, 7, h + 1) for h in range(1, 10)]
    both = list(samples_of([H, W]))
    assert len(both) == 81
    assert both[0] == (1, 32)
    assert both[-1] == (9, 512)
