"""ONNX's losses, whose classes are along the second axis."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.cross_entropy import IGNORED, CrossEntropy, LabelLoss, NegativeLogLikelihood
from afterglow.ops.loss import LossReduction

_REDUCTIONS = {reduction.value: reduction for reduction in LossReduction}


@onnx_op("SoftmaxCrossEntropyLoss")
def cross_entropy(n: NodeContext) -> Sequence[Value]:
    """The loss of logits, and the log probabilities if they are wanted."""
    return n.emit_all(_loss(n, CrossEntropy), n[0], n[1], n.get(2))[: len(n.proto.output)]


@onnx_op("NegativeLogLikelihoodLoss")
def negative_log_likelihood(n: NodeContext) -> Value:
    """The loss of log probabilities."""
    return n.emit(_loss(n, NegativeLogLikelihood), n[0], n[1], n.get(2))


def _loss(n: NodeContext, kind: type[LabelLoss]) -> LabelLoss:
    reduction = n.choice("reduction", _REDUCTIONS, "mean")
    return kind(1, n.integer("ignore_index", IGNORED), 0.0, reduction)
