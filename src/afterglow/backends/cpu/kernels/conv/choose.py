"""The algorithms for a convolution: as it is defined, by Winograd's way, or by Strassen's."""

from __future__ import annotations

import math

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.dots import dots_algorithm, suits_dots
from afterglow.backends.cpu.kernels.conv.geometry import Geometry, conv_of
from afterglow.backends.cpu.kernels.conv.padding import needs_copy
from afterglow.backends.cpu.kernels.conv.product import product_algorithm
from afterglow.backends.cpu.kernels.conv.winograd import winograd_algorithm
from afterglow.backends.cpu.kernels.conv.winograd.plan import (
    INPUT_COST,
    WinogradPlan,
    can_transform,
)
from afterglow.backends.cpu.kernels.strassen import Product, plan_strassen, strassen_algorithm
from afterglow.backends.cpu.micro.cost import FLOPS_PER_BYTE
from afterglow.backends.cpu.micro.kernel import Request
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.types.dtype import f32

LEAST_CHANNELS = 16
"""Fewer channels, of x or of the result, do not repay the transforms."""
OUTPUT_COST = 300.0
"""FLOPs that transforming a channel of a tile of 4 x 4 results takes as long as."""
SIZES = (2, 4)
"""Sizes of tiles to choose from: of 6 is faster on large images, with errors five times larger."""
LEAST_GAIN = 1.1
"""How much faster an estimate must be than the plain way."""


def conv_algorithms(r: Request) -> list[Algorithm]:
    """All algorithms for a convolution whose groups have several channels, the fastest first."""
    step, target = r.step, r.target
    cost = conv_cost(step)
    plain = dots_algorithm(r, cost) if suits_dots(step, target) else product_algorithm(r, cost)
    product = product_of(step)
    strassen = None if product is None else plan_strassen(product, step, target)
    if strassen is not None:
        fewer = strassen_algorithm(strassen, cost * (1 - strassen.gain))
        return [fewer, plain] if strassen.pays else [plain, fewer]
    if not _suits_winograd(step, target):
        return [plain]
    plans = [WinogradPlan.of(step, target, size) for size in SIZES]
    others = [winograd_algorithm(step, plan, _winograd_cost(plan)) for plan in plans]
    others.sort(key=lambda algorithm: algorithm.cost)
    if others[0].cost * LEAST_GAIN < cost:
        return [*others, plain]
    return [plain, *others]


def product_of(step: OpInstr) -> Product | None:
    """A convolution as one product of matrices, if its windows are single pixels."""
    x, weight, bias = (*step.ins, None)[:3]
    assert x is not None
    assert weight is not None
    single = math.prod(weight.type.shape[1:-1]) == 1 and conv_of(step).groups == 1
    if not single or needs_copy(step) or x.strides[-1] != 1:
        return None
    pixels = Geometry.of(step, x.strides).pixels
    columns, depth = weight.type.shape[0], weight.type.shape[-1]
    return Product(x, weight, bias, pixels, depth, columns, by_columns=True)


def conv_cost(step: OpInstr) -> float:
    """The cost of a convolution as it is defined: of its FLOPs, or of reading its weights."""
    weight = step.ins[1]
    assert weight is not None
    work = 2.0 * conv_of(step).work(step.outs[0].type, [None, weight.type])
    return _bound(work, weight.type.size)


def _suits_winograd(step: OpInstr, target: Target) -> bool:
    weight = step.ins[1]
    assert weight is not None
    enough = min(weight.type.shape[0], weight.type.shape[-1]) >= LEAST_CHANNELS
    return target.vector_bits > f32.bits and can_transform(step) and enough


def _winograd_cost(plan: WinogradPlan) -> float:
    scale = (plan.side / 6) ** 3
    transforms = (
        scale * plan.count * (INPUT_COST * plan.channels + OUTPUT_COST * plan.panels.columns)
    )
    weights = plan.places * plan.channels * plan.panels.padded
    return _bound(plan.work, weights) + transforms


def _bound(work: float, weights: int) -> float:
    """FLOPs, or the time that weights take to arrive if that is longer."""
    return max(work, FLOPS_PER_BYTE * f32.itemsize * weights)
