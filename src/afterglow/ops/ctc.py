"""Connectionist temporal classification: the loss of sequences whose alignment is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.control import Values, emit_scan
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Equal, Less, Max, Neg, Not, Where, scalar
from afterglow.ops.functions import Exp, Log
from afterglow.ops.indexing import Gather, GatherElements, Iota
from afterglow.ops.lengths import CheckLabels, CheckLengths, require_labels
from afterglow.ops.loss import LossReduction
from afterglow.ops.movement import Concat, Expand, Pad, Reshape, Slice
from afterglow.ops.reduction import narrowed, widened
from afterglow.ops.rules import (
    require,
    require_float,
    require_integer,
    require_rank,
    require_shape,
)
from afterglow.types import Array, IndexRange, IndexRanges, TensorType
from afterglow.types.dtype import i32

LOW = -1e9
"""Stands for the logarithm of 0: sums of such stay finite, and have a gradient."""
LEAST_SHIFT = -2e9
"""The least whole number that is taken off before exponentials: it is one of 32 bits."""
TINY = 1e-30


@op("ctc")
class CTC(Op):
    """-log of the probability that x aligns to labels, each after any number of blanks and repeats.

    x has log probabilities [time, batch, class], of which the first `input_lengths` times count;
    labels are [batch, longest], of which the first `target_lengths` count. Equal labels in a row
    have a blank between them. If there is no alignment, the loss is infinite, or 0 with
    `zero_infinity`, and the gradient is 0. A mean is over the losses divided by the lengths of
    their labels.
    """

    blank: int = 0
    zero_infinity: bool = False
    reduction: LossReduction = LossReduction.MEAN

    def infer(
        self,
        x: TensorType,
        labels: TensorType,
        input_lengths: TensorType,
        target_lengths: TensorType,
    ) -> TensorType:
        """A scalar, or a vector with a loss for each of the batch."""
        lengths = {"input_lengths": input_lengths, "target_lengths": target_lengths}
        require_float(x=x)
        require_rank(3, x=x)
        require_integer(labels=labels, **lengths)
        _, batch, classes = x.shape
        require_rank(2, labels=labels)
        require_shape((batch, labels.shape[1]), labels=labels)
        require_shape((batch,), **lengths)
        require(
            0 <= self.blank < classes,
            f"blank must be one of {classes} classes, got {self.blank}",
        )
        return self.reduction.type_of(x.with_shape((batch,)))

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """The lengths."""
        x, labels, *_ = self.required_of(operands)
        return {
            "input_lengths": (IndexRange.counts(x.shape[0]),),
            "target_lengths": (IndexRange.counts(labels.shape[1]),),
        }

    def evaluate(
        self, x: Array, labels: Array, input_lengths: Array, target_lengths: Array
    ) -> Array:
        """The probabilities of all alignments so far, time by time, for each of the batch."""
        each = np.array(
            [
                self._loss(x[:time, index], labels[index, :length])
                for index, (time, length) in enumerate(
                    zip(input_lengths, target_lengths, strict=True)
                )
            ],
            x.dtype,
        )
        each = np.where(np.isinf(each), 0, each) if self.zero_infinity else each
        if self.reduction is LossReduction.MEAN:
            each = each / np.maximum(target_lengths, 1).astype(x.dtype)
        return self.reduction.of(each)

    def _loss(self, logs: Array, labels: Array) -> float:
        """The loss of one sequence."""
        require_labels(self, labels, logs.shape[1])
        places = np.full(2 * len(labels) + 1, self.blank)
        places[1::2] = labels
        may_skip = np.zeros(len(places), bool)
        may_skip[2:] = places[2:] != places[:-2]
        sums = np.full(len(places), -np.inf, logs.dtype)
        sums[0] = 0
        for row in logs:
            before, skipped = np.full((2, len(places)), -np.inf, logs.dtype)
            before[1:] = sums[:-1]
            skipped[2:] = np.where(may_skip[2:], sums[:-2], -np.inf)
            sums = row[places] + np.logaddexp(np.logaddexp(sums, before), skipped)
        return float(-np.logaddexp.reduce(sums[-2:]))

    def lower(
        self,
        b: Builder,
        x: Value,
        labels: Value,
        input_lengths: Value,
        target_lengths: Value,
    ) -> Value:
        """As `evaluate`, by a scan along time for all of the batch at once."""
        logs = widened(b, x)
        time, batch, classes = logs.type.shape
        input_lengths, target_lengths = (
            b.emit(Reshape((batch, 1)), b.emit(Cast(i32), b.emit(CheckLengths(most), lengths)))
            for lengths, most in ((input_lengths, time), (target_lengths, labels.type.shape[1]))
        )
        places = self._emit_places(b, labels, target_lengths, classes)
        start = self._emit_start(b, logs, places.type.shape)
        times = b.emit(Iota((time,), 0, i32))
        captured = [places, self._emit_skips(b, places), input_lengths]
        (sums,) = emit_scan(b, time, _emit_step, [start], [logs, times], captured)
        each = self._emit_ends(b, sums, target_lengths)
        if self.reduction is LossReduction.MEAN:
            one = scalar(b, 1, target_lengths)
            counts = b.emit(Cast(each.type.dtype), b.emit(Max(), target_lengths, one))
            each = Arithmetic(b, each).div(each, counts)
        losses = self.reduction.emit(b, b.emit(Reshape((batch,)), each))
        return narrowed(b, losses, x)

    def _emit_places(self, b: Builder, labels: Value, lengths: Value, classes: int) -> Value:
        """Labels with a blank before each and at the end; only blanks behind the last that counts.

        What lies behind the last may be anything, and must not be taken for a class.
        """
        batch, longest = labels.type.shape
        labels = b.emit(Cast(i32), labels)
        blank = scalar(b, self.blank, labels)
        counts = b.emit(Less(), b.emit(Iota((1, longest), 1, i32)), lengths)
        labels = b.emit(CheckLabels(classes), b.emit(Where(), counts, labels, blank))
        last = b.emit(Expand((batch, 1)), blank)
        places = np.full(2 * longest + 1, longest)
        places[1::2] = np.arange(longest)
        both = b.emit(Concat(1), labels, last)
        return b.emit(Gather(1), both, b.constant(places, "places"))

    def _emit_skips(self, b: Builder, places: Value) -> Value:
        """Where the blank before a label may be left out: it is not that of two places before.

        Blanks themselves have a blank there.
        """
        padded = b.emit(Pad((0, 2), (0, 0)), places, scalar(b, self.blank, places))
        return b.emit(Not(), b.emit(Equal(), places, _part(b, padded, 0, places)))

    def _emit_start(self, b: Builder, logs: Value, shape: tuple[int, ...]) -> Value:
        """Before the first time, all is at the first place."""
        first = np.full((1, shape[1]), LOW, logs.type.dtype.numpy)
        first[:, :1] = 0
        return b.emit(Expand(shape), b.constant(first, "start"))

    def _emit_ends(self, b: Builder, sums: Value, lengths: Value) -> Value:
        """The losses: alignments end at the last label that counts or at the blank behind it."""
        a, n = Arithmetic(b, sums), Arithmetic(b, lengths)
        behind = n.add(lengths, lengths)
        last = b.emit(Max(), n.sub(behind, 1), n.value(0))
        at_last = b.emit(GatherElements(1), sums, last)
        has_none = b.emit(Equal(), lengths, n.value(0))
        ends = [
            b.emit(GatherElements(1), sums, behind),
            b.emit(Where(), has_none, a.value(LOW), at_last),
        ]
        loss = b.emit(Neg(), _emit_log_sum(a, ends))
        is_possible = b.emit(Less(), loss, a.value(-LOW / 2))
        otherwise = 0.0 if self.zero_infinity else np.inf
        return b.emit(Where(), is_possible, loss, a.value(otherwise))


def _part(b: Builder, padded: Value, start: int, like: Value) -> Value:
    return b.emit(Slice((0, start), like.type.shape, (1, 1)), padded)


def _emit_step(
    b: Builder, carried: Values, parts: Values, captured: Values
) -> tuple[Values, Values]:
    """The log probabilities of all alignments to each place, one time later."""
    (sums,), (logs, time), (places, may_skip, lengths) = carried, parts, captured
    a = Arithmetic(b, sums)
    padded = b.emit(Pad((0, 2), (0, 0)), sums, a.value(LOW))
    skipped = b.emit(Where(), may_skip, _part(b, padded, 0, sums), a.value(LOW))
    come = _emit_log_sum(a, [sums, _part(b, padded, 1, sums), skipped])
    row = b.emit(Max(), b.emit(GatherElements(1), logs, places), a.value(LOW))
    is_over = b.emit(Not(), b.emit(Less(), time, lengths))
    return [b.emit(Where(), is_over, sums, a.add(row, come))], []


def _emit_log_sum(a: Arithmetic, terms: Values) -> Value:
    """log(sum(exp(terms))), with about the largest taken off first.

    That is a whole number, through which no gradient flows: it would be 0.
    """
    b = a.b
    largest = a.value(LEAST_SHIFT)
    for term in terms:
        largest = b.emit(Max(), term, largest)
    shift = b.emit(Cast(a.like.type.dtype), b.emit(Cast(i32), largest))
    total = a.value(TINY)
    for term in terms:
        total = a.add(b.emit(Exp(), a.sub(term, shift)), total)
    return a.add(b.emit(Log(), total), shift)
