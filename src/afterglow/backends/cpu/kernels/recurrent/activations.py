"""The functions of gates."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.llvm import math
from afterglow.backends.cpu.llvm.emitter import Value, absolute, clamp, select
from afterglow.backends.cpu.pointwise import fast
from afterglow.ops.recurrent import Activation, Recurrent

_FUNCTIONS: dict[Activation, Callable[[Value, float, float], Value]] = {
    Activation.RELU: lambda x, alpha, beta: clamp(x, 0.0, None),
    Activation.TANH: lambda x, alpha, beta: fast.tanh(x),
    Activation.SIGMOID: lambda x, alpha, beta: fast.sigmoid(x),
    Activation.AFFINE: lambda x, alpha, beta: x * alpha + beta,
    Activation.LEAKY_RELU: lambda x, alpha, beta: select(x < 0.0, x * alpha, x),
    Activation.THRESHOLDED_RELU: lambda x, alpha, beta: select(x < alpha, 0.0, x),
    Activation.SCALED_TANH: lambda x, alpha, beta: fast.tanh(x * beta) * alpha,
    Activation.HARD_SIGMOID: lambda x, alpha, beta: clamp(x * alpha + beta, 0.0, 1.0),
    Activation.ELU: lambda x, alpha, beta: select(
        x < 0.0, fast.expm1(clamp(x, None, 0.0)) * alpha, x
    ),
    Activation.SOFTSIGN: lambda x, alpha, beta: x / (absolute(x) + 1.0),
    Activation.SOFTPLUS: lambda x, alpha, beta: (
        clamp(x, 0.0, None) + fast.log1p_of_fraction(math.exp_down(-absolute(x)))
    ),
}


def gate(op: Recurrent, index: int, x: Value) -> Value:
    """Activation `index` of x, which is clipped first."""
    return activate(op, index, x if op.clip is None else clamp(x, -op.clip, op.clip))


def activate(op: Recurrent, index: int, x: Value) -> Value:
    """Activation `index` of x."""
    return _FUNCTIONS[op.activations[index]](x, op.alphas[index], op.betas[index])
