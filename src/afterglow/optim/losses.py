"""Losses as users choose them: frozen values that say which targets they need, and emit their ops.

Formulas, names of arguments and defaults are those of PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from afterglow.graph import Builder, Op, Value
from afterglow.ops import cross_entropy, ctc, loss
from afterglow.ops.cross_entropy import IGNORED
from afterglow.ops.loss import LossReduction
from afterglow.ops.movement import Transpose
from afterglow.ops.softmax import LogSoftmax
from afterglow.support.checks import (
    check_above_zero,
    check_count,
    check_number,
    check_share,
    checked_numbers,
    look_up,
)
from afterglow.support.errors import UsageError
from afterglow.types import TensorType
from afterglow.types.dtype import i64

Targets = tuple[tuple[str, TensorType], ...]
"""Names and types of what a training step is given to learn from."""


@runtime_checkable
class Loss(Protocol):
    """What a training step needs of a loss."""

    def targets(self, outputs: Sequence[TensorType]) -> Targets:
        """The inputs that a step gets beside those of the model, for outputs of these types."""

    def emit(self, b: Builder, outputs: Sequence[Value], targets: Sequence[Value]) -> Value:
        """Emit the loss, a scalar."""


def named(name: str) -> Loss:
    """The loss of a name, with defaults."""
    return look_up("loss", name, _NAMED)()


@dataclass(frozen=True, kw_only=True)
class _OneOutput:
    """Base: the loss of a model with one output; `reduction` is "mean" or "sum"."""

    reduction: str = "mean"

    def __post_init__(self) -> None:
        if self.reduction not in ("mean", "sum"):
            raise UsageError(
                f'{self._name}: reduction must be "mean" or "sum", got {self.reduction!r}'
            )

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _reduction(self) -> LossReduction:
        return LossReduction(self.reduction)

    def _only(self, outputs: Sequence[TensorType]) -> TensorType:
        if len(outputs) != 1:
            raise UsageError(
                f"{self._name} is the loss of one output, the model has {len(outputs)}",
                help="give a function of (builder, outputs, targets) as loss, which adds several",
            )
        if not outputs[0].dtype.is_float:
            raise UsageError(f"{self._name} needs an output of floats, got {outputs[0]}")
        return outputs[0]


@dataclass(frozen=True)
class _LikeOutput(_OneOutput):
    """Base: the target is of the output's own type."""

    def targets(self, outputs: Sequence[TensorType]) -> Targets:
        """One, like the output."""
        return (("target", self._only(outputs)),)

    def emit(self, b: Builder, outputs: Sequence[Value], targets: Sequence[Value]) -> Value:
        """Emit the op."""
        return b.emit(self._op(), outputs[0], targets[0])

    def _op(self) -> Op:
        raise NotImplementedError


@dataclass(frozen=True)
class MSE(_LikeOutput):
    """Mean of squared errors.

    Args:
        reduction: "mean" or "sum".
    """

    def _op(self) -> Op:
        return loss.MSE(self._reduction)


@dataclass(frozen=True)
class L1(_LikeOutput):
    """Mean of absolute errors.

    Args:
        reduction: "mean" or "sum".
    """

    def _op(self) -> Op:
        return loss.L1(self._reduction)


@dataclass(frozen=True)
class Huber(_LikeOutput):
    """Half the squared error up to `delta`, a line beyond it.

    Args:
        delta: the error from which on the loss is a line.
        reduction: "mean" or "sum".
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero("Huber", "delta", self.delta)

    def _op(self) -> Op:
        return loss.Huber(self._reduction, self.delta)


@dataclass(frozen=True)
class CrossEntropy(_OneOutput):
    """Cross entropy of logits and labels of classes.

    Args:
        label_smoothing: the share of each target that is spread over all classes.
        ignore_index: the label of what does not count.
        class_weights: a factor for each class; a mean is weighted by those of the labels.
        probabilities: whether targets are probabilities of all classes instead of labels.
        axis: that of the classes; None: the second of three or more axes, else the last.
        reduction: "mean" or "sum".
    """

    label_smoothing: float = 0.0
    ignore_index: int = IGNORED
    class_weights: Sequence[float] | None = None
    probabilities: bool = False
    axis: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("CrossEntropy", "label_smoothing", self.label_smoothing)
        if self.class_weights is not None:
            weights = checked_numbers("CrossEntropy", "class_weights", self.class_weights)
            object.__setattr__(self, "class_weights", tuple(map(float, weights)))

    def targets(self, outputs: Sequence[TensorType]) -> Targets:
        """Labels, which have no axis of classes, or probabilities like the output."""
        x = self._only(outputs)
        axis = self._axis(x)
        if self.class_weights is not None and len(self.class_weights) != x.shape[axis]:
            raise UsageError(
                f"CrossEntropy: there are {len(self.class_weights)} class_weights for "
                f"{x.shape[axis]} classes, those of axis {axis} of the output {x}"
            )
        if self.probabilities:
            return (("probabilities", x),)
        return (("labels", TensorType(i64, (*x.shape[:axis], *x.shape[axis + 1 :]))),)

    def emit(self, b: Builder, outputs: Sequence[Value], targets: Sequence[Value]) -> Value:
        """Emit `cross_entropy`."""
        x, axis = outputs[0], self._axis(outputs[0].type)
        weights = None
        if self.class_weights is not None:
            weights = b.constant(np.array(self.class_weights, x.type.dtype.numpy), "class_weights")
        attributes = (axis, self.ignore_index, self.label_smoothing, self._reduction)
        return b.emit_all(cross_entropy.CrossEntropy(*attributes), x, targets[0], weights)[0]

    def _axis(self, x: TensorType) -> int:
        axis = self.axis if self.axis is not None else 1 if x.rank > 2 else -1
        if not -x.rank <= axis < x.rank:
            raise UsageError(f"CrossEntropy: the output {x} has no axis {axis} of classes")
        return axis % x.rank


@dataclass(frozen=True)
class BinaryCrossEntropy(_OneOutput):
    """Cross entropy of logits and targets from 0 to 1, each element by itself.

    Args:
        weight: a factor of the losses, one for all or one for each place along the last axis.
        pos_weight: a factor of what targets of 1 lose, given in the same way.
        reduction: "mean", over all elements, or "sum".
    """

    weight: float | Sequence[float] | None = None
    pos_weight: float | Sequence[float] | None = None
    _factors: ClassVar[tuple[str, ...]] = ("weight", "pos_weight")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self._factors:
            factor = getattr(self, name)
            if isinstance(factor, (Sequence, np.ndarray)) and not isinstance(factor, str):
                numbers = checked_numbers("BinaryCrossEntropy", name, factor)
                object.__setattr__(self, name, tuple(map(float, numbers)))
            elif factor is not None:
                check_number("BinaryCrossEntropy", name, factor)

    def targets(self, outputs: Sequence[TensorType]) -> Targets:
        """One, like the output."""
        x = self._only(outputs)
        for name in self._factors:
            factor = getattr(self, name)
            if isinstance(factor, tuple) and (len(factor),) != x.shape[-1:]:
                raise UsageError(
                    f"BinaryCrossEntropy: {name} has {len(factor)} numbers, which do not "
                    f"run along the last axis of the output {x}"
                )
        return (("target", x),)

    def emit(self, b: Builder, outputs: Sequence[Value], targets: Sequence[Value]) -> Value:
        """Emit `binary_cross_entropy`."""
        dtype = outputs[0].type.dtype.numpy
        given = [getattr(self, name) for name in self._factors]
        factors = [None if x is None else b.constant(np.array(x, dtype)) for x in given]
        op = loss.BinaryCrossEntropy(self._reduction)
        return b.emit(op, outputs[0], targets[0], *factors)


@dataclass(frozen=True)
class CTC(_OneOutput):
    """Connectionist temporal classification, of logits or log probabilities [time, batch, class].

    Targets are labels [batch, longest] and the lengths of inputs and of labels: what lies behind
    them does not count.

    Args:
        longest: the most labels that a sequence may have.
        blank: the class of no label.
        zero_infinity: whether sequences too short for their labels lose 0 instead of infinity.
        batch_first: whether outputs are [batch, time, class].
        reduction: "mean", of losses divided by the number of their labels, or "sum".
    """

    longest: int
    blank: int = 0
    zero_infinity: bool = False
    batch_first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("CTC", "longest", self.longest)
        check_count("CTC", "blank", self.blank, least=0)

    def targets(self, outputs: Sequence[TensorType]) -> Targets:
        """Labels, then the lengths of inputs and of labels."""
        x = self._only(outputs)
        if x.rank != 3:
            raise UsageError(f"CTC needs an output of three axes, got {x}")
        if self.blank >= x.shape[2]:
            raise UsageError(f"CTC: there is no class {self.blank} for blanks in the output {x}")
        batch = x.shape[0 if self.batch_first else 1]
        lengths = TensorType(i64, (batch,))
        labels = TensorType(i64, (batch, self.longest))
        return ("labels", labels), ("input_lengths", lengths), ("target_lengths", lengths)

    def emit(self, b: Builder, outputs: Sequence[Value], targets: Sequence[Value]) -> Value:
        """Emit `ctc` of log_softmax, which leaves log probabilities as they are."""
        logs = b.emit(LogSoftmax(), outputs[0])
        logs = b.emit(Transpose((1, 0, 2)), logs) if self.batch_first else logs
        return b.emit(ctc.CTC(self.blank, self.zero_infinity, self._reduction), logs, *targets)


_NAMED: dict[str, type[Loss]] = {
    "binary_cross_entropy": BinaryCrossEntropy,
    "cross_entropy": CrossEntropy,
    "huber": Huber,
    "l1": L1,
    "mse": MSE,
}
