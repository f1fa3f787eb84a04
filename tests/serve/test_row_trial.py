"""How many rows are joined is what a trial finds to pay."""

from __future__ import annotations

import pytest

from afterglow.serve.row_trial import PATIENCE, paying_rows


class Model:
    """Takes some seconds a run and some a row."""

    def __init__(self, run: float, row: float) -> None:
        self.run, self.row = run, row
        self.tried: list[int] = []

    def seconds(self, rows: int) -> float:
        self.tried.append(rows)
        return self.run + rows * self.row


def test_rows_that_share_the_work_of_a_run_are_joined():
    assert paying_rows(Model(run=0.001, row=0.0001).seconds, 8) == 8


def test_rows_that_take_their_own_time_are_not_joined():
    assert paying_rows(Model(run=0.0, row=0.002).seconds, 8) == 1


def test_no_more_rows_are_joined_than_pay():
    # a row of a run of 1, 2, 4 and 8 rows takes 11, 6, 3.5 and 3.5 ms
    seconds = {1: 0.011, 2: 0.012, 4: 0.014, 8: 0.028}
    assert paying_rows(seconds.__getitem__, 8) == 4


def test_the_largest_number_is_tried_though_it_is_no_power_of_two():
    model = Model(run=0.001, row=0.0)
    assert paying_rows(model.seconds, 6) == 6
    assert set(model.tried) == {1, 2, 4, 6}


@pytest.mark.parametrize("row", [0.1, 10.0])
def test_a_slow_model_is_not_tried_for_long(row):
    model = Model(run=0.0, row=row)
    assert paying_rows(model.seconds, 1024) == 1
    last = model.tried[-1]
    assert sum(model.tried) * row < PATIENCE + 3 * last * row
    assert last <= 8


def test_the_fastest_round_counts():
    times = iter([0.010, 0.001, 0.010, 0.010, 0.002, 0.010])
    assert paying_rows(lambda rows: next(times), 2) == 1
