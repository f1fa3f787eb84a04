"""Optimizers as users choose them: frozen values that emit the op which updates one weight.

Formulas, names of arguments and defaults are those of PyTorch, and Lion's those of its paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from afterglow.graph import Builder, Op, Value
from afterglow.ops import optimizer as ops
from afterglow.support.checks import check_betas, check_number, check_share, look_up
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

LearningRate = float | Callable[[int], float]
"""A number, or a schedule: a function of the number of the step, counted from 0."""
Operands = Sequence[Value | None]
Updated = tuple[Value, tuple[Value, ...]]
"""The new weight and its new slots."""


@runtime_checkable
class Optimizer(Protocol):
    """What a training step needs of an optimizer."""

    @property
    def lr(self) -> LearningRate:
        """The learning rate, which each run gets as a number."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the state that each weight has, all of its type; it begins at zero."""

    def update(
        self,
        b: Builder,
        weight: Value,
        gradient: Value,
        lr: Value,
        step: Value,
        slots: Sequence[Value],
    ) -> Updated:
        """Emit the update of a weight.

        `lr` is a scalar of the weight's element type, `step` an integer scalar: the number of this
        update, counted from 1.
        """


def named(name: str) -> Optimizer:
    """The optimizer of a name, with defaults."""
    return look_up("optimizer", name, _NAMED)()


def rate_at(optimizer: Optimizer, step: int) -> float:
    """The learning rate of a step, counted from 0."""
    found = optimizer.lr(step) if callable(optimizer.lr) else optimizer.lr
    try:
        rate = float(found)
    except (TypeError, ValueError):
        rate = math.nan
    if math.isfinite(rate) and rate >= 0:
        return rate
    raise UsageError(
        f"the learning rate of step {step} must be a number of at least 0, got {found!r}",
        help="a schedule is a function of the number of the step, from 0, that returns a number",
    )


def _check_lr(optimizer: Optimizer) -> None:
    if not callable(optimizer.lr):
        check_number(type(optimizer).__name__, "lr", optimizer.lr)


class _ByOp:
    """Base: the update of a weight is one op."""

    def update(
        self,
        b: Builder,
        weight: Value,
        gradient: Value,
        lr: Value,
        step: Value,
        slots: Sequence[Value],
    ) -> Updated:
        """Emit the op."""
        state = self._state(step, slots)
        moved, *kept = b.emit_all(self._op(), weight, gradient, lr, *state)
        return moved, tuple(kept)

    def _op(self) -> Op:
        raise NotImplementedError

    def _state(self, step: Value, slots: Sequence[Value]) -> Operands:
        """What the op takes behind the learning rate."""
        raise NotImplementedError


@dataclass(frozen=True)
class SGD(_ByOp):
    """Stochastic gradient descent, with momentum if it is not 0.

    Args:
        lr: the learning rate, a number or a schedule.
        momentum: the share of the last direction that is kept.
        dampening: the share of a new gradient that is left out of the direction.
        nesterov: whether to look ahead along the direction.
        weight_decay: the factor of the weight that is added to its gradient.
    """

    lr: LearningRate = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_lr(self)
        check_number("SGD", "momentum", self.momentum)
        check_number("SGD", "weight_decay", self.weight_decay)
        check_share("SGD", "dampening", self.dampening)
        if self.nesterov and (not self.momentum or self.dampening):
            raise UsageError(
                "SGD: nesterov needs momentum and no dampening, got "
                f"momentum={self.momentum:g}, dampening={self.dampening:g}"
            )

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of gradients, if there is momentum."""
        return ("velocity",) if self.momentum else ()

    def _op(self) -> Op:
        return ops.SGD(self.momentum, self.dampening, self.nesterov, self.weight_decay)

    def _state(self, step: Value, slots: Sequence[Value]) -> Operands:
        return (*slots, step) if self.momentum and self.dampening else slots


@dataclass(frozen=True)
class Adam(_ByOp):
    """Adam; `weight_decay` is added to the gradient, as PyTorch does.

    Args:
        lr: the learning rate, a number or a schedule.
        betas: how much of the averages of the gradient and of its square is kept each step.
        eps: added to the root of the average square, by which the step is divided.
        weight_decay: the factor of the weight that is added to its gradient.
    """

    lr: LearningRate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: ClassVar[bool] = False
    """Whether the decay of weights does not pass through the averages of gradients."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        _check_lr(self)
        check_betas(name, self.betas)
        check_number(name, "eps", self.eps)
        check_number(name, "weight_decay", self.weight_decay)
        object.__setattr__(self, "betas", tuple(self.betas))

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the gradient and of its square."""
        return ("mean", "square")

    def _op(self) -> Op:
        return ops.Adam(self.betas, self.eps, self.weight_decay, self.decoupled)

    def _state(self, step: Value, slots: Sequence[Value]) -> Operands:
        return (step, *slots)


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with a decay of weights that does not pass through the averages of gradients.

    Args:
        lr: the learning rate, a number or a schedule.
        betas: how much of the averages of the gradient and of its square is kept each step.
        eps: added to the root of the average square, by which the step is divided.
        weight_decay: the share of the weight, times `lr`, that is taken off each step.
    """

    weight_decay: float = 1e-2
    decoupled: ClassVar[bool] = True


@dataclass(frozen=True)
class Adagrad(_ByOp):
    """Adagrad: steps of a weight become smaller with the sum of its squared gradients.

    Args:
        lr: the learning rate, a number or a schedule.
        lr_decay: by which the rate falls: that of step t is lr / (1 + t lr_decay), t from 0.
        weight_decay: the factor of the weight that is added to its gradient.
        eps: added to the root of the sum of squares, by which the step is divided.
    """

    lr: LearningRate = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        _check_lr(self)
        for name in ("lr_decay", "weight_decay", "eps"):
            check_number("Adagrad", name, getattr(self, name))

    @property
    def slots(self) -> tuple[str, ...]:
        """The sum of squared gradients."""
        return ("square",)

    def _op(self) -> Op:
        return ops.Adagrad(self.lr_decay, self.eps, self.weight_decay)

    def _state(self, step: Value, slots: Sequence[Value]) -> Operands:
        return (step, *slots)


@dataclass(frozen=True)
class RMSProp(_ByOp):
    """RMSProp: steps of a weight are divided by the root of the average of its squared gradients.

    Args:
        lr: the learning rate, a number or a schedule.
        alpha: how much of the averages is kept each step.
        eps: added to the root, by which the step is divided.
        weight_decay: the factor of the weight that is added to its gradient.
        momentum: the share of the last step that is kept.
        centered: whether to divide by the root of the variance: squares less the squared mean.
    """

    lr: LearningRate = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        _check_lr(self)
        check_share("RMSProp", "alpha", self.alpha)
        for name in ("eps", "weight_decay", "momentum"):
            check_number("RMSProp", name, getattr(self, name))

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of squares, then what momentum and centering need."""
        velocity = ("velocity",) if self.momentum else ()
        return ("square", *velocity, *(("mean",) if self.centered else ()))

    def _op(self) -> Op:
        return ops.RMSProp(self.alpha, self.eps, self.momentum, self.centered, self.weight_decay)

    def _state(self, step: Value, slots: Sequence[Value]) -> Operands:
        of = dict(zip(self.slots, slots, strict=True))
        return of["square"], of.get("velocity"), of.get("mean")


@dataclass(frozen=True)
class Lion(_ByOp):
    """Lion: each element moves by the learning rate, where an average of gradients points.

    Args:
        lr: the learning rate, a number or a schedule.
        betas: how much of the average is kept for the direction, and for the next step.
        weight_decay: the share of the weight, times `lr`, that is taken off each step.
    """

    lr: LearningRate = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_lr(self)
        check_betas("Lion", self.betas)
        check_number("Lion", "weight_decay", self.weight_decay)
        object.__setattr__(self, "betas", tuple(self.betas))

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of gradients."""
        return ("mean",)

    def _op(self) -> Op:
        return ops.Lion(self.betas, self.weight_decay)

    def _state(self, step: Value, slots: Sequence[Value]) -> Operands:
        return slots


_NAMED: dict[str, type[Optimizer]] = {
    "adagrad": Adagrad,
    "adam": Adam,
    "adamw": AdamW,
    "lion": Lion,
    "rmsprop": RMSProp,
    "sgd": SGD,
}
