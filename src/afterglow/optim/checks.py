"""Checks of what users choose, each with an error that names the argument."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from afterglow.support.errors import UsageError

T = TypeVar("T")


def check_number(owner: str, name: str, number: float, least: float = 0.0) -> None:
    """A hyperparameter is a finite number that is not below `least`."""
    if _is_number(number) and number >= least:
        return
    raise UsageError(f"{owner}: {name} must be a number of at least {least:g}, got {number!r}")


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
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return False
    return math.isfinite(number)


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """What a name stands for; the error for an unknown one lists the known."""
    if name not in known:
        raise UsageError(f"there is no {kind} {name!r}", help=f"known are {', '.join(known)}")
    return known[name]


def check_count(owner: str, name: str, number: int, least: int = 1) -> None:
    """A hyperparameter is a whole number that is not below `least`."""
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if not is_whole or number < least:
        raise UsageError(f"{owner}: {name} must be a whole number from {least}, got {number!r}")
