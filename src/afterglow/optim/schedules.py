"""Schedules of the learning rate: functions of the number of the step, counted from 0.

They are frozen values: equal ones compare equal, and `as_json` and `from_json` store them with a
checkpoint. `lr` is the rate that others are relative to, and `warmup` the number of steps in which
the rate rises to it in a line, the first of them with `lr / warmup`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from afterglow.support.checks import check_count, check_number, checked_numbers, look_up
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Schedule:
    """Base: what all schedules are."""

    lr: float

    def __post_init__(self) -> None:
        check_number(self._name, "lr", self.lr)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __call__(self, step: int) -> float:
        """The learning rate of a step."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """What `from_json` makes the schedule of."""
        return {"kind": self._name, **asdict(self)}


def from_json(stored: Mapping[str, Any]) -> Schedule:
    """The schedule that `as_json` stored."""
    fields = dict(stored)
    return look_up("schedule", fields.pop("kind"), _KINDS)(**fields)


@dataclass(frozen=True)
class Constant(Schedule):
    """The same rate for all steps."""

    def __call__(self, step: int) -> float:
        """The learning rate of a step."""
        return self.lr


@dataclass(frozen=True)
class LinearWarmup(Schedule):
    """A rate that rises in a line for the first steps, and then stays."""

    warmup: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self._name, "warmup", self.warmup, least=0)

    def __call__(self, step: int) -> float:
        """The learning rate of a step."""
        return self.lr * min(1.0, (step + 1) / self.warmup) if self.warmup else self.lr


@dataclass(frozen=True)
class StepDecay(Schedule):
    """A rate that is multiplied by `gamma` once every `every` steps."""

    every: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self._name, "every", self.every)
        check_number(self._name, "gamma", self.gamma)

    def __call__(self, step: int) -> float:
        """The learning rate of a step."""
        return self.lr * float(self.gamma) ** (step // self.every)


@dataclass(frozen=True)
class Exponential(Schedule):
    """A rate that is multiplied by `gamma` each step."""

    gamma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self._name, "gamma", self.gamma)

    def __call__(self, step: int) -> float:
        """The learning rate of a step."""
        return self.lr * float(self.gamma) ** step


@dataclass(frozen=True)
class Decay(Schedule):
    """Base: a rate that falls from `lr` to `end` in `steps` steps, warm-up included, then stays."""

    steps: int
    warmup: int = 0
    end: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self._name, "steps", self.steps)
        check_count(self._name, "warmup", self.warmup, least=0)
        check_number(self._name, "end", self.end)
        if self.warmup >= self.steps:
            raise UsageError(
                f"{self._name}: warmup must be less than the {self.steps} steps, got {self.warmup}"
            )

    def __call__(self, step: int) -> float:
        """The learning rate of a step."""
        if step < self.warmup:
            return LinearWarmup(self.lr, self.warmup)(step)
        done = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        return self.end + (self.lr - self.end) * self.left(done)

    def left(self, done: float) -> float:
        """The share of the way down that is left, for the share of steps that is done."""
        raise NotImplementedError


@dataclass(frozen=True)
class Cosine(Decay):
    """A rate that falls as half a wave of the cosine, after warm-up."""

    def left(self, done: float) -> float:
        """From 1 to 0, flat at both ends."""
        return (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class Polynomial(Decay):
    """A rate that falls as a power of the share of steps left, after warm-up; in a line for 1."""

    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self._name, "power", self.power)

    def left(self, done: float) -> float:
        """From 1 to 0."""
        return float((1 - done) ** self.power)


@dataclass(frozen=True)
class OneCycle(Schedule):
    """A rate that rises to `lr` for a share of `steps`, then falls far below where it began.

    Args:
        lr: the largest rate.
        steps: the number of steps of the cycle.
        rise: the share of the steps in which the rate rises.
        start_divisor: the first rate is lr / start_divisor.
        end_divisor: the last rate is the first / end_divisor.
    """

    steps: int
    rise: float = 0.3
    start_divisor: float = 25.0
    end_divisor: float = 1e4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self._name, "steps", self.steps)
        for name in ("start_divisor", "end_divisor"):
            check_number(self._name, name, getattr(self, name), least=1.0)
        check_number(self._name, "rise", self.rise)
        if not 0 < self.rise * self.steps - 1 < self.steps - 1:
            raise UsageError(
                f"{self._name}: the rate must rise in more than 1 and fewer than all of "
                f"{self.steps} steps, got rise={self.rise:g}"
            )

    def __call__(self, step: int) -> float:
        """The learning rate of a step."""
        peak, last = self.rise * self.steps - 1, self.steps - 1
        start = self.lr / self.start_divisor
        if step <= peak:
            return _cosine(start, self.lr, step / peak)
        return _cosine(self.lr, start / self.end_divisor, min(1.0, (step - peak) / (last - peak)))


def _cosine(start: float, end: float, done: float) -> float:
    """From one number to another, flat at both ends."""
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class Piecewise(Schedule):
    """The rate `lr`, then from each step of `boundaries` on the next one of `rates`."""

    boundaries: Sequence[int]
    rates: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("boundaries", "rates"):
            object.__setattr__(self, name, checked_numbers(self._name, name, getattr(self, name)))
        if len(self.boundaries) != len(self.rates):
            raise UsageError(
                f"Piecewise: each boundary needs a rate, got {len(self.boundaries)} boundaries "
                f"and {len(self.rates)} rates"
            )
        if any(first >= second for first, second in pairwise((0, *self.boundaries))):
            raise UsageError(f"Piecewise: boundaries must rise from 1 on, got {self.boundaries}")

    def __call__(self, step: int) -> float:
        """The learning rate of a step."""
        return (self.lr, *self.rates)[bisect_right(self.boundaries, step)]


_KINDS: dict[str, type[Schedule]] = {
    kind.__name__: kind
    for kind in (
        *(Constant, LinearWarmup, StepDecay, Exponential),
        *(Cosine, Polynomial, OneCycle, Piecewise),
    )
}
