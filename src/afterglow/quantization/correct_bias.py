"""Biases that make up for the mean error of rounded weights.

Rounding makes each weight a little too large or too small. Inputs whose mean is not zero turn
that into an error of the same sign in all results of a channel, which its bias can take back.
"""

from __future__ import annotations

import numpy as np

from afterglow.graph import Op
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.types import Array


def expected_error(op: Op, difference: Array, mean: Array) -> Array:
    """The mean error of each result channel of a `conv` or `matmul`, as f32.

    `difference` is what rounding added to its weight, `mean` that of each input channel.
    What convolutions read beyond the edges is taken to be like the rest.
    """
    wide, mean = difference.astype(np.float64), mean.astype(np.float64)
    if isinstance(op, Conv):
        return _of_convolution(wide, mean, op.groups)
    if isinstance(op, MatMul) and wide.ndim == 2:
        weight = wide if op.transpose_rhs else wide.T
        return np.asarray(weight @ mean, np.float32)
    raise TypeError(f"no expected error of {op}")


def _of_convolution(difference: Array, mean: Array, groups: int) -> Array:
    """Of a weight [results, kernel…, channels / groups]."""
    results, channels = difference.shape[0], difference.shape[-1]
    taps = difference.reshape(groups, results // groups, -1, channels).sum(2)
    by_group = np.einsum("grc,gc->gr", taps, mean.reshape(groups, channels))
    return np.asarray(by_group.reshape(results), np.float32)
