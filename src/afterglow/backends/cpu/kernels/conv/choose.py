"""The algorithms for a convolution: direct, Winograd's, or Strassen's."""

from __future__ import annotations

import math

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.dots import dots_algorithm, suits_dots
from afterglow.backends.cpu.kernels.conv.geometry import Geometry, conv_of
from afterglow.backends.cpu.kernels.conv.padding import needs_copy
from afterglow.backends.cpu.kernels.conv.product import product_algorithm
from afterglow.backends.cpu.kernels.conv.tiling import Corner, least_regret
from afterglow.backends.cpu.kernels.conv.winograd import winograd_algorithm
from afterglow.backends.cpu.kernels.conv.winograd.plan import (
    WinogradPlan,
    can_transform,
)
from afterglow.backends.cpu.kernels.strassen import (
    StrassenPlan,
    StrassenProduct,
    plan_ranged_strassen,
    plan_strassen,
    strassen_algorithm,
)
from afterglow.backends.cpu.micro.cost import (
    WINOGRAD_GAIN,
    WINOGRAD_INPUT,
    WINOGRAD_OUTPUT,
    memory_bound,
)
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged, largest, smallest

LEAST_CHANNELS = 16
"""Fewer channels, of x or of the result, do not repay the transforms."""
SIZES = (2, 4)
"""Sizes of tiles to choose from: of 6 is faster on large images, with errors five times larger."""


def conv_algorithms(r: KernelRequest) -> list[Algorithm]:
    """All algorithms for a convolution whose groups have several channels, the fastest first."""
    step, target = r.step, r.target
    cost = conv_cost(step)
    plain = dots_algorithm(r, cost) if suits_dots(step, target) else product_algorithm(r, cost)
    product = product_of(step)
    strassen = None if product is None else _plan_strassen(product, step, target)
    if strassen is not None:
        fewer = strassen_algorithm(strassen, cost * (1 - strassen.gain))
        return [fewer, plain] if strassen.pays else [plain, fewer]
    if not _suits_winograd(step, target):
        return [plain]
    plans = [WinogradPlan.of(step, target, size) for size in SIZES]
    others = [winograd_algorithm(step, plan, _winograd_cost(plan, largest)) for plan in plans]
    if is_ranged(step.outs[0].type.size):
        return _by_regret(step, plain, others, plans)
    others.sort(key=lambda algorithm: algorithm.cost)
    if others[0].cost * WINOGRAD_GAIN < cost:
        return [*others, plain]
    return [plain, *others]


def _by_regret(
    step: OpInstr, plain: Algorithm, others: list[Algorithm], plans: list[WinogradPlan]
) -> list[Algorithm]:
    """The algorithm that is nowhere in the range of extents much worse than the best comes first.

    The others follow by their cost at the largest extents.
    """
    costs = [
        [conv_cost(step, at), *(_winograd_cost(plan, at) * WINOGRAD_GAIN for plan in plans)]
        for at in (smallest, largest)
    ]
    listed = [plain, *others]
    first = listed.pop(least_regret(costs))
    return [first, *sorted(listed, key=lambda algorithm: algorithm.cost)]


def product_of(step: OpInstr) -> StrassenProduct | None:
    """A convolution as one product of matrices, if its windows are single pixels."""
    (x, weight), bias = step.required, step.optional(2)
    single = math.prod(weight.type.shape[1:-1]) == 1 and conv_of(step).groups == 1
    if not single or needs_copy(step) or x.strides[-1] != 1:
        return None
    pixels = Geometry.of(step, x.strides).pixels
    pixels = Axes.merged(pixels.extents, pixels.strides)
    if any(map(is_ranged, pixels.extents)) and len(pixels.extents) > 1:
        return None
    columns, depth = weight.type.shape[0], weight.type.shape[-1]
    return StrassenProduct(x, weight, bias, pixels, depth, columns, by_columns=True)


def _plan_strassen(product: StrassenProduct, step: OpInstr, target: Target) -> StrassenPlan | None:
    """The plan of Strassen's algorithm, if it is faster for all extents."""
    if not is_ranged(product.rows):
        return plan_strassen(product, step, target)
    plan = plan_ranged_strassen(product, step, target)
    return plan if plan is not None and plan.least_rows <= smallest(product.rows) else None


def conv_cost(step: OpInstr, at: Corner = largest) -> float:
    """The cost of a convolution as it is defined: of its FLOPs, or of reading its weights."""
    x, weight = step.required
    work = 2.0 * at(conv_of(step).work(step.outs[0].type, [x.type, weight.type]))
    return memory_bound(work, f32.itemsize * weight.type.size)


def _suits_winograd(step: OpInstr, target: Target) -> bool:
    weight = step.required[1]
    enough = min(weight.type.shape[0], weight.type.shape[-1]) >= LEAST_CHANNELS
    return target.vector_bits > f32.bits and can_transform(step) and enough


def _winograd_cost(plan: WinogradPlan, at: Corner) -> float:
    scale = (plan.side / 6) ** 3
    transforms = (
        scale
        * at(plan.count)
        * (WINOGRAD_INPUT * plan.channels + WINOGRAD_OUTPUT * plan.panels.columns)
    )
    weights = plan.places * plan.channels * plan.panels.padded
    return memory_bound(plan.work_at(at), f32.itemsize * weights) + transforms
