"""The algorithms for a convolution: direct, Winograd's, or Strassen's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.dots import dots_algorithm, suits_dots
from afterglow.backends.cpu.kernels.conv.few_pixels import (
    few_pixels_algorithm,
    suits_few_pixels,
)
from afterglow.backends.cpu.kernels.conv.geometry import Geometry, conv_of
from afterglow.backends.cpu.kernels.conv.padding import needs_copy
from afterglow.backends.cpu.kernels.conv.product import product_algorithm, waits_in_product
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
from afterglow.backends.cpu.kernels.versions import (
    chosen_by_extents,
    fewest_choices,
    samples_of,
    where_least,
)
from afterglow.backends.cpu.micro.cost import (
    PACKED_ELEMENT,
    WINOGRAD_GAIN,
    memory_bound,
    memory_bound_extent,
    waiting,
)
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer, OpInstr, Region
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
        fewer = strassen_algorithm(strassen, cost)
        if strassen.least_rows > smallest(strassen.product.rows):
            return [chosen_by_extents([plain, fewer], [1 - strassen.used, strassen.used]), plain]
        return [fewer, plain] if strassen.pays else [plain, fewer]
    listed = [plain]
    if suits_few_pixels(step, target):
        listed.append(few_pixels_algorithm(r))
        listed.sort(key=lambda algorithm: algorithm.shared_cost)
    if not _suits_winograd(step, target):
        return listed
    plans = [WinogradPlan.of(step, target, size) for size in SIZES]
    others = [winograd_algorithm(step, plan) for plan in plans]
    if is_ranged(step.outs[0].type.size):
        return _by_extents(step, [plain, *others], plans)
    if _is_packed(step.required[1]):
        in_run = (WinogradPlan.of(step, target, size, in_run=True) for size in SIZES)
        others.extend(winograd_algorithm(step, plan) for plan in in_run)
    others.sort(key=lambda algorithm: algorithm.shared_cost)
    pays = [each for each in others if each.shared_cost * WINOGRAD_GAIN < listed[0].shared_cost]
    return [*pays, *listed, *others[len(pays) :]]


def _is_packed(weight: Buffer) -> bool:
    """Whether a weight would be packed, which could be transformed in each run as well."""
    return weight.region is Region.CONSTANT and weight.type.dtype is f32


def _by_extents(
    step: OpInstr, algorithms: list[Algorithm], plans: list[WinogradPlan]
) -> list[Algorithm]:
    """The algorithms of a ranged convolution: first those that are fast somewhere, as one."""
    shape = step.outs[0].type.shape[:3]
    kept = fewest_choices([_costs(step, plans, sample) for sample in samples_of(shape)])
    listed = sorted(algorithms, key=lambda algorithm: algorithm.shared_cost)
    if len(kept) == 1:
        (first,) = (algorithms[place] for place in kept)
        return [first, *(algorithm for algorithm in listed if algorithm is not first)]
    costs = _costs(step, plans, shape)
    used = where_least([costs[place] for place in kept])
    return [chosen_by_extents([algorithms[place] for place in kept], used), *listed]


def _costs(step: OpInstr, plans: list[WinogradPlan], shape: Sequence[int]) -> list[int]:
    """For images of a shape, the cost of the definition, then that by each plan, if it pays."""
    size, gain = step.required[1].type.size, round(100 * WINOGRAD_GAIN)
    direct = memory_bound_extent(2 * math.prod(shape) * size, f32.itemsize * size)
    costs = [plan.cost_of(shape) + waiting(plan.waits) for plan in plans]
    return [100 * (direct + waiting(waits_in_product(step))), *(gain * cost for cost in costs)]


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
    """The plan of Strassen's algorithm, if it is faster for some extents."""
    plan = plan_ranged_strassen if is_ranged(product.rows) else plan_strassen
    return plan(product, step, target)


def conv_cost(step: OpInstr) -> float:
    """The cost of a convolution as it is defined: of its FLOPs, or of reading its weights.

    Weights that are not constant are packed before.
    """
    x, weight = step.required
    work = 2.0 * largest(conv_of(step).work(step.outs[0].type, [x.type, weight.type]))
    packed = 0.0 if weight.region is Region.CONSTANT else PACKED_ELEMENT * weight.type.size
    return packed + memory_bound(work, f32.itemsize * weight.type.size)


def _suits_winograd(step: OpInstr, target: Target) -> bool:
    weight = step.required[1]
    enough = min(weight.type.shape[0], weight.type.shape[-1]) >= LEAST_CHANNELS
    return target.vector_bits > f32.bits and can_transform(step) and enough
