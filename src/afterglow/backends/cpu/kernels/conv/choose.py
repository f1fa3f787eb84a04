"""Which way a convolution is computed: plainly, by Winograd's algorithm, or by Strassen's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from afterglow.backends.cpu.candidate import Candidate
from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.kernels.conv.geometry import Geometry, conv_of
from afterglow.backends.cpu.kernels.conv.padding import needs_copy
from afterglow.backends.cpu.kernels.conv.winograd.plan import (
    INPUT_COST,
    WinogradPlan,
    can_transform,
)
from afterglow.backends.cpu.kernels.strassen import (
    STRASSEN,
    Product,
    StrassenPlan,
    plan_strassen,
)
from afterglow.backends.cpu.target import Target
from afterglow.backends.policy import Policy
from afterglow.instr import OpInstr
from afterglow.types.dtype import f32

LEAST_CHANNELS = 16
"""Fewer channels, of x or of the result, do not repay the transforms."""
OUTPUT_COST = 300.0
"""FLOPs that transforming a channel of a tile of 4 x 4 results takes as long as."""
FLOPS_PER_BYTE = 4.0
"""FLOPs in the time in which a byte comes from memory."""
SIZES = (2, 4)
"""Sizes of tiles to choose from: of 6 is faster on large images, with errors five times larger."""
LEAST_GAIN = 1.1
"""How much faster an estimate must be than the plain way."""
DIRECT = "direct"


@dataclass(frozen=True)
class Way(Candidate):
    """A way to compute a convolution; without a plan, it is the plain one."""

    plan: WinogradPlan | StrassenPlan | None = None


def choose_plan(k: Kernel) -> WinogradPlan | StrassenPlan | None:
    """The plan of the way that is picked, or fastest by an estimate; None if that is plain."""
    ways = ways_of(k.step, k.target, k.policy)
    return next((way for way in ways if way.name == k.pick), ways[0]).plan


def ways_of(step: OpInstr, target: Target, policy: Policy) -> list[Way]:
    """All ways, the one that is fastest by an estimate first."""
    plain = Way(DIRECT, plain_cost(step))
    product = product_of(step)
    strassen = None if product is None else plan_strassen(product, step, target, policy)
    if strassen is not None:
        fewer = Way(STRASSEN, plain.cost * (1 - strassen.gain), strassen)
        return [fewer, plain] if strassen.pays else [plain, fewer]
    if policy.exact or policy.small_weights or not _suits_winograd(step, target):
        return [plain]
    plans = (WinogradPlan.of(step, target, size) for size in SIZES)
    others = sorted(
        (Way(f"winograd {plan.size}x{plan.size}", _cost(plan), plan) for plan in plans),
        key=lambda way: way.cost,
    )
    if others[0].cost * LEAST_GAIN < plain.cost:
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


def _suits_winograd(step: OpInstr, target: Target) -> bool:
    weight = step.ins[1]
    assert weight is not None
    enough = min(weight.type.shape[0], weight.type.shape[-1]) >= LEAST_CHANNELS
    return target.vector_bits > f32.bits and can_transform(step) and enough


def plain_cost(step: OpInstr) -> float:
    """What the plain way costs: its FLOPs, or what its weights cost if that is more."""
    weight = step.ins[1]
    assert weight is not None
    work = 2.0 * conv_of(step).work(step.outs[0].type, [None, weight.type])
    return _bound(work, weight.type.size)


def _cost(plan: WinogradPlan) -> float:
    """An estimate of the time, in FLOPs."""
    scale = (plan.side / 6) ** 3
    transforms = (
        scale * plan.count * (INPUT_COST * plan.channels + OUTPUT_COST * plan.panels.channels)
    )
    weights = plan.places * plan.channels * plan.panels.padded
    return _bound(plan.work, weights) + transforms


def _bound(work: float, weights: int) -> float:
    """FLOPs, or the time that weights take to arrive if that is longer."""
    return max(work, FLOPS_PER_BYTE * f32.itemsize * weights)
