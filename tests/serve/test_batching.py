"""Requests are joined, refused, expired and forgotten: the queue of one model."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import numpy as np
import pytest

from afterglow.serve.batching import Batcher, BatchLimits
from afterglow.serve.errors import ErrorKind, RequestError
from afterglow.serve.statistics import ServedStatistics
from afterglow.support.errors import DeadlineError, UsageError


class Runs:
    """A model that doubles its input, once it is told to."""

    def __init__(self, **limits):
        self.began = []
        self.futures = []
        self.batcher = Batcher(self.submit, BatchLimits(**limits), ServedStatistics())

    def submit(self, feed, priority, trace):
        self.began.append((feed["x"][:, 0].tolist(), priority))
        self.futures.append((feed["x"], Future()))
        return self.futures[-1][1]

    def ask(self, *rows, key="any", priority=5, timeout=None):
        x = np.array(rows, np.float32).reshape(-1, 1)
        run = self.batcher.run({"x": x}, len(x), key, priority, timeout)
        return asyncio.ensure_future(run)

    async def finish(self, error=None):
        await asyncio.sleep(0.003)
        x, future = self.futures.pop(0)
        if error is None:
            future.set_result(2 * x)
        else:
            future.set_exception(error)
        await asyncio.sleep(0.002)


def answers(*tasks):
    return [task.result()[0][0][:, 0].tolist() for task in tasks]


def test_what_comes_while_a_run_is_going_runs_together():
    async def scenario():
        runs = Runs(max_batch=4)
        tasks = [runs.ask(0)]
        await asyncio.sleep(0.003)
        tasks += [runs.ask(n) for n in range(1, 6)]
        await runs.finish()
        await runs.finish()
        await runs.finish()
        assert [began for began, _ in runs.began] == [[0], [1, 2, 3, 4], [5]]
        assert answers(*tasks) == [[0], [2], [4], [6], [8], [10]]
        assert runs.batcher.statistics.batches[4].count == 1

    asyncio.run(scenario())


def test_requests_of_other_extents_run_apart_and_rows_are_bounded():
    async def scenario():
        runs = Runs(max_batch=4)
        first = runs.ask(0)
        await asyncio.sleep(0.003)
        tasks = [runs.ask(1, 2, 3), runs.ask(4, key="other"), runs.ask(5, 6), runs.ask(7)]
        for _ in range(4):
            await runs.finish()
        assert [began for began, _ in runs.began] == [[0], [1, 2, 3, 7], [4], [5, 6]]
        assert answers(first, *tasks) == [[0], [2, 4, 6], [8], [10, 12], [14]]

    asyncio.run(scenario())


def test_a_run_waits_for_more_as_long_as_the_delay():
    async def scenario():
        runs = Runs(max_batch=4, max_delay=0.02)
        tasks = [runs.ask(1), runs.ask(2)]
        await asyncio.sleep(0.005)
        assert not runs.began
        await asyncio.sleep(0.03)
        assert runs.began == [([1, 2], 5)]
        full = [runs.ask(n) for n in range(4)]
        await runs.finish()
        assert runs.began[1] == ([0, 1, 2, 3], 5)  # a full batch waits for nobody
        await runs.finish()
        assert answers(*tasks, *full) == [[2], [4], [0], [2], [4], [6]]

    asyncio.run(scenario())


def test_the_lower_number_begins_first():
    async def scenario():
        runs = Runs()
        tasks = [runs.ask(0)]
        await asyncio.sleep(0.003)
        tasks += [runs.ask(1, priority=9), runs.ask(2, priority=1)]
        for _ in range(3):
            await runs.finish()
        assert runs.began == [([0], 5), ([2], 1), ([1], 9)]
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_more_than_may_wait_is_refused():
    async def scenario():
        runs = Runs(max_queue=2)
        tasks = [runs.ask(0)]
        await asyncio.sleep(0.003)
        tasks += [runs.ask(n) for n in range(1, 3)]
        await asyncio.sleep(0.003)
        with pytest.raises(RequestError) as caught:
            await runs.ask(3)
        assert caught.value.kind is ErrorKind.BUSY
        for _ in range(3):
            await runs.finish()
        assert len(answers(*tasks)) == 3

    asyncio.run(scenario())


def test_what_nobody_waits_for_does_not_run():
    async def scenario():
        runs = Runs(max_queue=2)
        first = runs.ask(0)
        await asyncio.sleep(0.003)
        gone, kept = runs.ask(1), runs.ask(2)
        await asyncio.sleep(0.003)
        gone.cancel()
        await asyncio.sleep(0.003)
        assert runs.batcher.waiting == 1
        await runs.finish()
        await runs.finish()
        assert [began for began, _ in runs.began] == [[0], [2]]
        assert answers(first, kept) == [[0], [4]]

    asyncio.run(scenario())


def test_what_is_late_is_told_while_others_run():
    async def scenario():
        runs = Runs()
        first = runs.ask(0)
        await asyncio.sleep(0.003)
        late = runs.ask(1, timeout=0.01)
        with pytest.raises(DeadlineError):
            await late
        assert not first.done()
        await runs.finish()
        assert runs.batcher.waiting == 0
        await runs.batcher.drained()

    asyncio.run(scenario())


def test_an_error_belongs_to_the_request_that_caused_it():
    async def scenario():
        runs = Runs(max_batch=4)
        first = runs.ask(0)
        await asyncio.sleep(0.003)
        good, bad = runs.ask(1), runs.ask(2)
        await runs.finish()
        await runs.finish(UsageError("index 2 is out of range"))
        await runs.finish()
        await runs.finish(UsageError("index 2 is out of range"))
        assert [began for began, _ in runs.began] == [[0], [1, 2], [1], [2]]
        assert answers(first, good) == [[0], [2]]
        with pytest.raises(UsageError):
            await bad

    asyncio.run(scenario())


def test_draining_waits_for_all():
    async def scenario():
        runs = Runs()
        tasks = [runs.ask(0), runs.ask(1)]
        await asyncio.sleep(0.003)
        draining = asyncio.ensure_future(runs.batcher.drained())
        await runs.finish()
        assert not draining.done()
        await runs.finish()
        await asyncio.sleep(0.003)
        assert draining.done()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())
