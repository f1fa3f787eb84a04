"""Cross entropy: how surprising targets are to the probabilities that logits stand for."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.channels import emit_along
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Equal, Neg, Where, scalar
from afterglow.ops.functions import Exp
from afterglow.ops.indexing import Gather, GatherElements, Iota
from afterglow.ops.lengths import CheckLabels, require_labels
from afterglow.ops.loss import LossReduction
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceSum, emit_total, narrowed, widened
from afterglow.ops.rules import (
    normal_axis,
    require,
    require_float,
    require_same_dtype,
    require_shape,
)
from afterglow.ops.softmax import LogSoftmax
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import i32, i64

IGNORED = -100
"""The label of what does not count, unless another one is chosen."""


@dataclass(frozen=True, repr=False)
class LabelLoss(Op):
    """Base: the loss of log probabilities along an axis, given labels or probabilities of classes.

    Labels are integers, without the axis of classes; `ignore_index` marks what does not count.
    Probabilities are floats, with that axis. `label_smoothing` is the share of the target that is
    spread over all classes. `weight` has a factor for each class. A mean over labels is weighted
    by the factors of those that count, one over probabilities is not weighted.
    """

    axis: int = -1
    ignore_index: int = IGNORED
    label_smoothing: float = 0.0
    reduction: LossReduction = LossReduction.MEAN

    def loss_type(self, x: TensorType, labels: TensorType, weight: TensorType | None) -> TensorType:
        """The type of the loss of operands that fit."""
        require_float(x=x)
        axis = normal_axis(self.axis, x)
        share = self.label_smoothing
        require(0 <= share <= 1, f"label_smoothing must be from 0 to 1, got {share}")
        kept = x.with_shape((*x.shape[:axis], *x.shape[axis + 1 :]))
        if labels.dtype.is_float:
            require_same_dtype(x=x, labels=labels)
            require_shape(x.shape, labels=labels)
        else:
            require(labels.dtype.is_integer, f"labels must hold integers or floats, got {labels}")
            require_shape(kept.shape, labels=labels)
        if weight is not None:
            require_same_dtype(x=x, weight=weight)
            require_shape((x.shape[axis],), weight=weight)
        return self.reduction.type_of(kept)

    def loss_of(self, logs: Array, labels: Array, weight: Array | None) -> Array:
        """The loss of log probabilities."""
        axis, classes = self.axis % logs.ndim, logs.shape[self.axis]
        weights = np.ones(classes, logs.dtype) if weight is None else weight
        weights = weights.reshape([-1 if i == axis else 1 for i in range(logs.ndim)])
        if labels.dtype.kind not in "iu":
            target = labels * (1 - self.label_smoothing) + self.label_smoothing / classes
            return self.reduction.of(-(logs * target * weights).sum(axis))
        counts, places = self._places(labels, classes, axis)
        every = np.broadcast_to(weights, logs.shape)
        mass = np.where(counts, np.take_along_axis(every, places, axis), 0)
        picked = np.take_along_axis(logs * weights, places, axis)
        smooth = (logs * weights).sum(axis, keepdims=True) * (self.label_smoothing / classes)
        total = picked * (1 - self.label_smoothing) + (smooth if self.label_smoothing else 0)
        each = np.where(counts, -total, 0).squeeze(axis).astype(logs.dtype)
        if self.reduction is LossReduction.MEAN:
            return np.asarray(each.sum() / mass.sum())
        return self.reduction.of(each)

    def _places(self, labels: Array, classes: int, axis: int) -> tuple[Array, Array]:
        """Which labels count, and all of them as indices, 0 for those that do not."""
        labels = np.expand_dims(labels, axis).astype(np.int64)
        counts = labels != self.ignore_index
        places = np.where(counts, labels, 0)
        require_labels(self, places, classes)
        return counts, places

    def emit_loss(self, b: Builder, logs: Value, labels: Value, weight: Value | None) -> Value:
        """As `loss_of`, from primitive ops."""
        target = _Target(self, b, logs, labels, weight)
        each = target.emit_losses()
        if self.reduction is LossReduction.NONE:
            return b.emit(Reshape(self.loss_type(logs.type, labels.type, None).shape), each)
        total = emit_total(b, each)
        return target.a.div(total, target.count) if target.count is not None else total


class _Target:
    """What is to be learned, as values that broadcast to those of all classes."""

    def __init__(
        self, loss: LabelLoss, b: Builder, logs: Value, labels: Value, weight: Value | None
    ) -> None:
        self.loss, self.b, self.a = loss, b, Arithmetic(b, logs)
        self.logs, self.labels = logs, labels
        self.axis = normal_axis(loss.axis, logs.type)
        self.classes = logs.type.shape[self.axis]
        self.weight = weight
        self.weights = None if weight is None else emit_along(b, weight, self.axis, logs.type.rank)
        self.has_labels = labels.type.dtype.is_integer
        if self.has_labels:
            self._place()

    def _place(self) -> None:
        """Labels with an axis of extent 1 for that of classes, and which of them do not count."""
        b, shape = self.b, [*self.logs.type.shape]
        shape[self.axis] = 1
        at = b.emit(Reshape(tuple(shape)), self.labels)
        least, most = i32.limits
        is_small = at.type.dtype is i32 and least <= self.loss.ignore_index <= most
        at = at if is_small or at.type.dtype is i64 else b.emit(Cast(i64), at)
        self.ignored = b.emit(Equal(), at, scalar(b, self.loss.ignore_index, at))
        place = b.emit(Where(), self.ignored, scalar(b, 0, at), at)
        self.place = b.emit(CheckLabels(self.classes), place)
        self.at = at if at.type.dtype is i32 else b.emit(Cast(i32), at)

    @cached_property
    def factor(self) -> Value | None:
        """The weight of the class of each label."""
        return None if self.weight is None else self.b.emit(Gather(0), self.weight, self.place)

    @cached_property
    def count(self) -> Value | None:
        """By what a mean divides; None if there is no mean."""
        if self.loss.reduction is not LossReduction.MEAN:
            return None
        if not self.has_labels:
            return scalar(self.b, self.logs.type.size // self.classes, self.logs)
        one = self.a.value(1.0) if self.factor is None else self.factor
        return emit_total(self.b, self.b.emit(Where(), self.ignored, self.a.value(0.0), one))

    def emit_losses(self) -> Value:
        """The loss of each position, with an axis of extent 1 for that of classes."""
        if not self.has_labels:
            return self._emit_negative_sum(self._emit_probabilities())
        picked = self.b.emit(GatherElements(self.axis), self.logs, self.place)
        if self.factor is not None:
            picked = self.a.mul(picked, self.factor)
        lost = self.b.emit(Neg(), picked)
        share = self.loss.label_smoothing
        if share:
            spread = self.a.mul(self._emit_negative_sum(None), share / self.classes)
            lost = self.a.add(self.a.mul(lost, 1 - share), spread)
        return self.b.emit(Where(), self.ignored, self.a.value(0.0), lost)

    def _emit_negative_sum(self, factors: Value | None) -> Value:
        """-sum(factors weights logs) over classes."""
        terms = [f for f in (factors, self.weights) if f is not None]
        product = self.logs
        for term in terms:
            product = self.a.mul(product, term)
        return self.b.emit(Neg(), self.b.emit(ReduceSum((self.axis,)), product))

    def _emit_probabilities(self) -> Value:
        share = self.loss.label_smoothing
        if not share:
            return self.labels
        return self.a.add(self.a.mul(self.labels, 1 - share), share / self.classes)

    def emit_grad(self, grad: Value) -> Value:
        """The gradient of the loss of each position, 0 for those that do not count."""
        if self.count is not None:
            grad = self.a.div(grad, self.count)
        elif self.loss.reduction is LossReduction.NONE:
            shape = [*self.logs.type.shape]
            shape[self.axis] = 1
            grad = self.b.emit(Reshape(tuple(shape)), grad)
        if not self.has_labels:
            return grad
        return self.b.emit(Where(), self.ignored, self.a.value(0.0), grad)

    def emit_hit(self, x: Value) -> Value:
        """x where a class is that of the label, else 0: no one-hot tensor is stored."""
        shape = [1] * self.logs.type.rank
        shape[self.axis] = self.classes
        number = self.b.emit(Iota(tuple(shape), self.axis, i32))
        return self.b.emit(Where(), self.b.emit(Equal(), number, self.at), x, self.a.value(0.0))

    def emit_shares(self, grad: Value, *, weighted: bool = True) -> tuple[Value, Value]:
        """The target of each class times a gradient of each position, and the sum over classes."""
        a, smooth = self.a, self.loss.label_smoothing
        weights = self.weights if weighted else None
        if not self.has_labels:
            shares = a.mul(grad, self._emit_probabilities())
            shares = shares if weights is None else a.mul(shares, weights)
            return shares, self.b.emit(ReduceSum((self.axis,)), shares)
        own = a.mul(grad, 1 - smooth) if smooth else grad
        own = own if weights is None or self.factor is None else a.mul(own, self.factor)
        shares = self.emit_hit(own)
        if not smooth:
            return shares, own
        rest = a.mul(grad, smooth / self.classes)
        if weights is None or self.weight is None:
            return a.add(shares, rest), a.add(own, a.mul(rest, self.classes))
        all_weights = emit_total(self.b, self.weight)
        return a.add(shares, a.mul(rest, weights)), a.add(own, a.mul(rest, all_weights))

    def emit_to_labels(self, grad: Value) -> Value | None:
        """The gradient of probabilities that are to be learned."""
        if self.has_labels:
            return None
        back = self.a.mul(self.a.mul(grad, -(1 - self.loss.label_smoothing)), self.logs)
        return back if self.weights is None else self.a.mul(back, self.weights)

    def emit_to_weight(self, out: Value, grad: Value, each: Value) -> Value | None:
        """The gradient of the weights of classes: of the losses, and of what a mean divides by."""
        if self.weight is None:
            return None
        shares, _ = self.emit_shares(each, weighted=False)
        terms = self.a.mul(shares, self.logs)
        if self.has_labels and self.count is not None:
            less = self.a.div(self.a.mul(grad, out), self.count)
            kept = self.b.emit(Where(), self.ignored, self.a.value(0.0), less)
            terms = self.a.add(terms, self.emit_hit(kept))
        others = tuple(i for i in range(self.logs.type.rank) if i != self.axis)
        return self.b.emit(Neg(), self.b.emit(ReduceSum(others, keepdims=False), terms))


@op("nll")
class NegativeLogLikelihood(LabelLoss):
    """-sum(target x) over the classes along `axis`, for log probabilities x."""

    def infer(
        self, x: TensorType, labels: TensorType, weight: TensorType | None = None
    ) -> TensorType:
        """A scalar, or the type of x without the axis of classes."""
        return self.loss_type(x, labels, weight)

    def evaluate(self, x: Array, labels: Array, weight: Array | None = None) -> Array:
        """By the definition."""
        return self.loss_of(x, labels, weight)

    def lower(self, b: Builder, x: Value, labels: Value, weight: Value | None = None) -> Value:
        """As `evaluate`, from primitive ops; in float32 at least."""
        logs, weights = widened(b, x), None if weight is None else widened(b, weight)
        labels = widened(b, labels)
        return narrowed(b, self.emit_loss(b, logs, labels, weights), x)

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        labels: Value,
        weight: Value | None = None,
    ) -> Gradients:
        """To x the target, negated."""
        target = _Target(self, b, x, labels, weight)
        each = target.emit_grad(grad)
        shares, _ = target.emit_shares(each)
        to_weight = target.emit_to_weight(out, grad, each)
        return b.emit(Neg(), shares), target.emit_to_labels(each), to_weight


@op("cross_entropy")
class CrossEntropy(LabelLoss):
    """-sum(target log(softmax(x))) over the classes along `axis`, for logits x.

    The second result has the log probabilities: the gradient needs nothing else.
    """

    result_names = ("loss", "logs")

    def infer(
        self, x: TensorType, labels: TensorType, weight: TensorType | None = None
    ) -> tuple[TensorType, TensorType]:
        """A scalar, or the type of x without the axis of classes; and the type of x."""
        return self.loss_type(x, labels, weight), x

    def evaluate(self, x: Array, labels: Array, weight: Array | None = None) -> tuple[Array, Array]:
        """By the definition."""
        logs = LogSoftmax(self.axis).evaluate(x)
        return self.loss_of(logs, labels, weight), logs

    def lower(
        self, b: Builder, x: Value, labels: Value, weight: Value | None = None
    ) -> tuple[Value, Value]:
        """The negative log likelihood of log_softmax(x)."""
        logs = b.emit(LogSoftmax(self.axis), x)
        attributes = (self.axis, self.ignore_index, self.label_smoothing, self.reduction)
        return b.emit(NegativeLogLikelihood(*attributes), logs, labels, weight), logs

    def gradient(
        self,
        b: Builder,
        out: tuple[Value, Value],
        grad: tuple[Value | None, Value | None],
        x: Value,
        labels: Value,
        weight: Value | None = None,
    ) -> Gradients:
        """To x, softmax(x) - target, both times the gradient of the loss."""
        (loss, logs), (to_loss, to_logs) = out, grad
        through = None
        if to_logs is not None:
            (through,) = LogSoftmax(self.axis).gradient(b, logs, to_logs, x)
        if to_loss is None:
            return through, None, None
        target = _Target(self, b, logs, labels, weight)
        each = target.emit_grad(to_loss)
        shares, total = target.emit_shares(each)
        back = target.a.sub(target.a.mul(b.emit(Exp(), logs), total), shares)
        back = back if through is None else target.a.add(back, through)
        return back, target.emit_to_labels(each), target.emit_to_weight(loss, to_loss, each)
