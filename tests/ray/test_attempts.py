"""Attempts at a request, without a cluster: references are futures that tests settle."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayTaskError, WorkerCrashedError

from afterglow import UsageError
from afterglow.ray.attempts import Patience, first_result, is_lost

Outcome = object
NEVER = object()


def reference(outcome: Outcome) -> Any:
    """What a stage gives: a value, an error, or nothing for ever."""
    future: Future[Any] = Future()
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    elif outcome is not NEVER:
        future.set_result(outcome)
    return SimpleNamespace(future=lambda: future)


def run(*attempts: Sequence[Outcome], seconds: float = 5.0, slow_after: float | None = None) -> Any:
    """The outputs of attempts, each of which has one or several, and how many were begun."""
    begun: list[int] = []

    def start(number: int) -> list[Any]:
        begun.append(number)
        return [reference(outcome) for outcome in attempts[number]]

    return first_result(start, Patience(seconds, slow_after)), len(begun)


def of_task(cause: Exception) -> RayTaskError:
    return RayTaskError("run", "traceback", cause)


def test_the_first_attempt_is_enough_if_it_succeeds() -> None:
    assert run([1, 2]) == ([1, 2], 1)


def test_what_a_dead_process_had_is_tried_again() -> None:
    assert run([WorkerCrashedError()], [WorkerCrashedError()], [7]) == ([7], 3)


def test_an_error_of_an_earlier_stage_is_one_of_its_process() -> None:
    assert is_lost(of_task(WorkerCrashedError()))
    assert run([3, of_task(WorkerCrashedError())], [3, 4]) == ([3, 4], 2)


def test_an_error_of_the_model_is_raised_at_once() -> None:
    with pytest.raises(UsageError, match="three axes"):
        run([of_task(UsageError("it has three axes"))], [1])


def test_a_slow_attempt_gets_company_and_the_first_answer_counts() -> None:
    assert run([NEVER], [5], slow_after=0.01) == ([5], 2)


def test_after_its_time_a_request_ends_with_the_error() -> None:
    with pytest.raises(WorkerCrashedError):
        run(*([WorkerCrashedError()] for _ in range(20)), seconds=0.2)
