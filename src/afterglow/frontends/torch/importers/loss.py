"""ATen's losses; classes are along axis 1, or the only one."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import loss as losses
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.cross_entropy import CrossEntropy, LabelLoss, NegativeLogLikelihood
from afterglow.ops.elementwise import Add, Max, Mul, Neg, Sub
from afterglow.ops.functions import Log, Log1p
from afterglow.ops.loss import LossReduction
from afterglow.support.errors import ModelError

_REDUCTIONS = (LossReduction.NONE, LossReduction.MEAN, LossReduction.SUM)
_LOWEST_LOG = -100.0
"""What PyTorch takes for the logarithm of 0 in a cross entropy of probabilities."""


def _reduction(n: TorchNode) -> LossReduction:
    number = n.size("reduction")
    if number not in range(len(_REDUCTIONS)):
        raise ModelError(f"there is no reduction {number}")
    return _REDUCTIONS[number]


def _of_labels(n: TorchNode, kind: type[LabelLoss], smoothing: float = 0.0) -> Value:
    x = n.value("self")
    axis = 1 if x.type.rank > 1 else 0
    op = kind(axis, n.size("ignore_index"), smoothing, _reduction(n))
    return n.emit_all(op, x, n.value("target"), n.optional("weight"))[0]


@aten("cross_entropy_loss.default")
def cross_entropy(n: TorchNode) -> Value:
    """Of logits, given labels or probabilities."""
    return _of_labels(n, CrossEntropy, float(n.scalar("label_smoothing")))


@aten("nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default")
def negative_log_likelihood(n: TorchNode) -> Value:
    """Of log probabilities."""
    return _of_labels(n, NegativeLogLikelihood)


@aten("nll_loss_forward.default", "nll_loss2d_forward.default")
def negative_log_likelihood_forward(n: TorchNode) -> Sequence[Value | None]:
    """Without the total weight, which gradients read."""
    if n.is_read(1):
        raise n.fail("the total weight of a loss is not supported")
    return (_of_labels(n, NegativeLogLikelihood),)


def _pair(n: TorchNode) -> tuple[Value, Value]:
    """What is compared, in the element type of the result."""
    x, target = (as_dtype(n, n.value(name), n.result_type()) for name in ("self", "target"))
    return x, target


@aten("mse_loss.default")
def mse(n: TorchNode) -> Value:
    """Squares of differences."""
    return n.emit(losses.MSE(_reduction(n)), *_pair(n))


@aten("l1_loss.default")
def l1(n: TorchNode) -> Value:
    """Absolute differences."""
    return n.emit(losses.L1(_reduction(n)), *_pair(n))


@aten("huber_loss.default")
def huber(n: TorchNode) -> Value:
    """Squares up to delta, then lines."""
    return n.emit(losses.Huber(_reduction(n), float(n.scalar("delta"))), *_pair(n))


@aten("smooth_l1_loss.default")
def smooth_l1(n: TorchNode) -> Value:
    """The same divided by where lines begin; absolute differences if that is 0."""
    beta = float(n.scalar("beta"))
    if beta == 0:
        return l1(n)
    total = n.emit(losses.Huber(_reduction(n), beta), *_pair(n))
    return Arithmetic(n.builder, total).mul(total, 1 / beta)


@aten("binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(n: TorchNode) -> Value:
    """Ours."""
    op = losses.BinaryCrossEntropy(_reduction(n))
    return n.emit(op, *_pair(n), n.optional("weight"), n.optional("pos_weight"))


@aten("binary_cross_entropy.default")
def binary_cross_entropy(n: TorchNode) -> Value:
    """Of probabilities; logarithms have a least value."""
    x, target = _pair(n)
    t = Arithmetic(n.builder, x)
    low = t.value(_LOWEST_LOG)
    log = n.emit(Max(), n.emit(Log(), x), low)
    log_of_rest = n.emit(Max(), n.emit(Log1p(), n.emit(Neg(), x)), low)
    rest = n.emit(Sub(), t.value(1.0), target)
    each = n.emit(Add(), n.emit(Mul(), target, log), n.emit(Mul(), rest, log_of_rest))
    each = n.emit(Neg(), each)
    weight = n.optional("weight")
    if weight is not None:
        each = n.emit(Mul(), each, weight)
    return _reduction(n).emit(n.builder, each)
