"""Checks of what users choose, each with an error that names the argument."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import TypeVar

from afterglow.support.errors import UsageError

T = TypeVar("T")


def check_number(
    owner: str, name: str, number: float, least: float = 0.0, most: float | None = None
) -> None:
    """A hyperparameter is a finite number that is not below `least`, nor above `most`."""
    if _is_number(number) and number >= least and (most is None or number <= most):
        return
    wanted = f"of at least {least:g}" if most is None else f"from {least:g} to {most:g}"
    raise UsageError(f"{owner}: {name} must be a number {wanted}, got {number!r}")


def check_above_zero(owner: str, name: str, number: float) -> None:
    """A hyperparameter is a finite number above 0."""
    if not _is_number(number) or number <= 0:
        raise UsageError(f"{owner}: {name} must be a number above 0, got {number!r}")


def checked_numbers(owner: str, name: str, numbers: Iterable[float]) -> tuple[float, ...]:
    """A hyperparameter is a list of finite numbers from 0."""
    if isinstance(numbers, (str, Mapping)) or not isinstance(numbers, Iterable):
        raise UsageError(
            f"{owner}: {name} must be a list of numbers, got {numbers!r}",
            help=f"write {name}=[…], even for a single number",
        )
    found = tuple(numbers)
    for number in found:
        check_number(owner, name, number)
    return found


def check_share(owner: str, name: str, number: float) -> None:
    """A hyperparameter is at least 0 and less than 1."""
    if not _is_number(number) or not 0 <= number < 1:
        raise UsageError(f"{owner}: {name} must be a number from 0 to less than 1, got {number!r}")


def check_betas(owner: str, betas: tuple[float, float]) -> None:
    """Two shares."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise UsageError(f"{owner}: betas must be two numbers, got {betas!r}")
    for index, beta in enumerate(betas):
        check_share(owner, f"betas[{index}]", beta)


def _is_number(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, Real):
        return False
    return math.isfinite(number)


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """What a name stands for; the error for an unknown one lists the known."""
    if name not in known:
        raise UsageError(f"there is no {kind} {name!r}", help=f"known are {', '.join(known)}")
    return known[name]


def check_count(owner: str, name: str, number: int, least: int | None = 1) -> None:
    """A hyperparameter is a whole number that is not below `least`, or any if that is None."""
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not is_whole or (least is not None and number < least):
        wanted = "" if least is None else f" from {least}"
        raise UsageError(f"{owner}: {name} must be a whole number{wanted}, got {number!r}")
