"""How many rows a run should have at most: tried on the machine that serves, before requests come.

Whether rows that run together take less time than one after another depends on the model and the
machine: a layer of few rows waits for its weights, one of many has enough to compute.
"""

from __future__ import annotations

from collections.abc import Callable

ROUNDS = 3
LONG_ENOUGH = 0.2
"""Seconds of runs with one number of rows after which there is no further round."""
PATIENCE = 0.5
"""Seconds of runs after which no larger number of rows is tried."""
WORTH = 1.1
"""How many times the rows a second there must be for requests to be joined further."""


def paying_rows(seconds: Callable[[int], float], most: int) -> int:
    """The fewest rows of a run that give nearly the most rows a second.

    `seconds` runs a number of rows on all instances at once, and tells how long that took. Tried
    are powers of two, up to `most`, until they have taken long enough.
    """
    each: dict[int, float] = {}
    spent, rows = 0.0, 1
    while rows <= most and spent < PATIENCE:
        times = [seconds(rows)]
        while len(times) < ROUNDS and sum(times) < LONG_ENOUGH:
            times.append(seconds(rows))
        spent += sum(times)
        each[rows] = min(times) / rows
        rows = most if rows < most < 2 * rows else 2 * rows
    limit = WORTH * min(each.values())
    return min(rows for rows, time in each.items() if time <= limit)
