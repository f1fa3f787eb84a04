"""How far the algorithms for convolutions and products are from exact sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.graph import Op
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench

SAME = Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=1)
POINT = Conv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1)
LAYERS: dict[str, tuple[Op, tuple[int, ...], tuple[int, ...]]] = {
    "conv 3x3, 64 channels, 28x28": (SAME, (1, 28, 28, 64), (64, 3, 3, 64)),
    "conv 3x3, 128 channels, 28x28": (SAME, (1, 28, 28, 128), (128, 3, 3, 128)),
    "conv 3x3, 256 channels, 14x14": (SAME, (1, 14, 14, 256), (256, 3, 3, 256)),
    "conv 3x3, 512 channels, 7x7": (SAME, (1, 7, 7, 512), (512, 3, 3, 512)),
    "conv 1x1, 512 channels, 14x14": (POINT, (1, 14, 14, 512), (128, 1, 1, 512)),
    "matmul 128x768x768": (MatMul(), (128, 768), (768, 768)),
    "matmul 384x768x3072": (MatMul(), (384, 768), (768, 3072)),
    "matmul 1x2048x1000": (MatMul(), (1, 2048), (2048, 1000)),
}
"""Layers as networks have them: the op, and the shapes of its two operands."""


def errors(layer: str, policy: Policy = DEFAULT) -> Iterator[tuple[str, float]]:
    """Each algorithm that the policy allows, the chosen first, and its error on a layer.

    The error is the largest difference from the result in double precision, over the largest
    magnitude of that result. Operands are random: x positive, as after a rectifier.
    """
    op, x_shape, weight_shape = LAYERS[layer]
    random = np.random.default_rng(1)
    x = np.abs(random.standard_normal(x_shape)).astype(np.float32)
    depth = int(np.prod(weight_shape[1:])) if isinstance(op, Conv) else weight_shape[0]
    weight = (random.standard_normal(weight_shape) / np.sqrt(depth)).astype(np.float32)
    wanted = op.evaluate(x.astype(np.float64), weight.astype(np.float64))
    bench = Bench(Target.host())
    bench.step(op, bench.input(x), bench.constant(weight), stored=True)
    job = bench.job()
    for plan in plans_for(job, bench.target, policy):
        bench.policy = replace(policy, variants={job.key: plan.variant})
        yield plan.variant, _error(bench.run()[0], wanted)


def _error(found: Array, wanted: Array) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())
