"""Convolutions of 3 x 3 by Winograd's minimal filtering: fewer products, at the cost of transforms.

Tiles of x are transformed, multiplied place by place with transformed weights, and transformed
back. Blocks of tiles go through all three while they are in the second cache.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.columns import each_kind
from afterglow.backends.cpu.kernels.conv.panels import ConvWeights, bias_needs
from afterglow.backends.cpu.kernels.conv.winograd.input import InputTransform, TileReading
from afterglow.backends.cpu.kernels.conv.winograd.output import OutputTransform
from afterglow.backends.cpu.kernels.conv.winograd.plan import FEW_BLOCKS, WinogradPlan
from afterglow.backends.cpu.kernels.conv.winograd.products import BlockProducts, PlaceProduct
from afterglow.backends.cpu.kernels.conv.winograd.weights import (
    WeightPanels,
    weight_needs,
    write_weight,
)
from afterglow.backends.cpu.llvm.emitter import Index, Value
from afterglow.backends.cpu.micro.cost import WINOGRAD_INPUT, WINOGRAD_OUTPUT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.instr import OpInstr, Region
from afterglow.types.dtype import f32
from afterglow.types.extent import largest

IN_RUN = "in run"
"""The setting of plans that transform constant weights in each run, which takes less memory."""


def winograd_algorithm(step: OpInstr, plan: WinogradPlan) -> Algorithm:
    """Winograd's algorithm for a convolution, by a plan."""
    weight, bias = weight_needs(step, plan), bias_needs(step, plan.panels, 1)
    matrices = plan.places * plan.matrix
    is_constant = step.required[1].region is Region.CONSTANT
    between = Storage(f32, plan.size * plan.side * plan.panels.width)
    scratch = {"between": between, **weight.scratch}
    workspace = {**weight.workspace, **bias.workspace}
    products = Storage(f32, plan.places * plan.product * plan.products_at_once)
    (workspace if plan.shares_places else scratch)["products"] = products
    if plan.shares_panels != 0:
        blocks = min(largest(plan.blocks), FEW_BLOCKS - 1)
        workspace["matrices"] = Storage(f32, blocks * matrices)
    if plan.shares_panels != 1:
        scratch["matrices"] = Storage(f32, matrices)
    scratch |= TileReading.of_x(step, plan).scratch(step, plan)
    return Algorithm(
        "winograd",
        float(plan.cost_of([largest(n) for n in (plan.batch, *plan.extents)])),
        lambda k: _write_winograd(k, plan),
        KernelNeeds(workspace, scratch, (*weight.packed, *bias.packed)),
        {"size": plan.size, **({"weights": IN_RUN} if plan.in_run and is_constant else {})},
        is_exact=False,
        waits=plan.waits,
        weight_growth=_weight_growth(step, plan),
    )


def _weight_growth(step: OpInstr, plan: WinogradPlan) -> int:
    """Bytes that a transformed weight takes besides those of the weight, if it is packed."""
    if plan.in_run:
        return 0  # it is filled up to whole panels, as by any algorithm
    size = plan.panels.padded * plan.places * plan.channels
    return size * f32.itemsize - step.required[1].type.nbytes


def _write_winograd(k: Kernel, plan: WinogradPlan) -> None:
    """Write the kernel: blocks one by one; where they are few, panels are shared too.

    If that depends on extents, it is written in both ways, of which one has no units in a run.
    """
    factors = ConvWeights(k, plan.panels, 1, plan.channels * plan.places)
    factors.write_bias()
    write_weight(k, plan)
    if plan.shares_places:
        _write_by_place(k, plan, factors)
        return
    if plan.shares_panels != 0:
        _write_apart(k, plan, factors)
    if plan.shares_panels != 1:
        _write_in_one(k, plan, factors)


def _write_in_one(k: Kernel, plan: WinogradPlan, factors: ConvWeights) -> None:
    """One phase: a unit transforms the tiles of a block, then computes all their results."""
    units = plan.blocks * (1 - plan.shares_panels)
    name = "" if plan.shares_panels == 0 else "_blocks"
    with k.phase(units, plan.work, f"winograd{plan.size}{name}") as p:
        matrices = p.scratch("matrices")
        products, transform = (
            BlockProducts(p, plan, factors),
            InputTransform(p, plan, TileReading.of_x(p.step, plan)),
        )
        weight = WeightPanels(p, plan)
        with p.units() as block:
            first = block * plan.tiles
            with p.e.loop(plan.left(p.e, first), name="tile") as tile:
                transform.write(first + tile, matrices + tile * plan.line)
            with p.e.loop(plan.panels.count, name="panel") as panel:
                products.write(matrices, block, panel, weight.panel(panel))


def _write_apart(k: Kernel, plan: WinogradPlan, factors: ConvWeights) -> None:
    """Two phases: all tiles are transformed; then a unit is a panel of a block."""
    size, share = plan.places * plan.matrix, plan.shares_panels
    _write_input(k, plan)
    blocks = plan.blocks if plan.transforms_apart else 1
    with k.phase(blocks * plan.panels.count * share, plan.work, f"winograd{plan.size}") as p:
        matrices, weight = p.workspace("matrices"), WeightPanels(p, plan)
        products = BlockProducts(p, plan, factors)
        with p.units() as unit:
            panel, first = split(unit, blocks)
            factor = weight.panel(p.e.index(panel))
            last = p.e.index(first) + (1 if plan.transforms_apart else plan.blocks)
            with p.e.loop(last, start=first, name="block") as block:
                products.write(matrices + block * size, block, panel, factor)


def _write_by_place(k: Kernel, plan: WinogradPlan, factors: ConvWeights) -> None:
    """Three phases: the products of a place of a block are units, too, and then the results.

    Neighbouring units share the weight of a place.
    """
    _write_input(k, plan)
    size, panels = plan.places * plan.matrix, plan.panels
    units = panels.count * plan.places * plan.blocks
    with k.phase(units, plan.work, f"winograd{plan.size}_places") as p:
        matrices, products = p.workspace("matrices"), p.workspace("products")
        weight = WeightPanels(p, plan)
        multiply = PlaceProduct(p, plan)
        with p.units() as unit:
            rest, block = split(unit, plan.blocks)
            panel, place = (p.e.index(part) for part in split(rest, plan.places))
            to = products + _made_at(plan, panel, block) + place * plan.product
            matrix = matrices + p.e.index(block) * size + place * plan.matrix
            for columns in each_kind(p.e, panels, p.e.index(0), panel):
                factor = weight.panel(panel) + place * (plan.channels * columns.width)
                multiply.write(matrix, factor, columns, to, p.e.index(block) * plan.tiles)
    work = WINOGRAD_OUTPUT * plan.count * panels.columns
    with k.phase(panels.count * plan.count, work, f"winograd{plan.size}_output") as p:
        products, output = p.workspace("products"), OutputTransform(p, plan, factors.bias_in(p))
        with p.units() as unit:
            panel, tile = (p.e.index(part) for part in split(unit, plan.count))
            block, within = split(tile, plan.tiles) if plan.blocks > 1 else (0, tile)
            made = products + _made_at(plan, panel, block)
            for columns in each_kind(p.e, panels, p.e.index(0), panel):
                output.write(tile, made + within * columns.width, columns)


def _write_input(k: Kernel, plan: WinogradPlan) -> None:
    """A phase that transforms all tiles of x; each is a unit."""
    work = largest(plan.count) * plan.channels * WINOGRAD_INPUT
    units = plan.count * plan.shares_panels
    with k.phase(units, work, f"winograd{plan.size}_input", beside=True) as p:
        matrices = p.workspace("matrices")
        transform = InputTransform(p, plan, TileReading.of_x(p.step, plan))
        with p.units() as tile:
            block, place = split(tile, plan.tiles) if largest(plan.blocks) > 1 else (0, tile)
            to = matrices + p.e.index(block) * (plan.places * plan.matrix)
            transform.write(tile, to + place * plan.line)


def _made_at(plan: WinogradPlan, panel: Value, block: Index) -> Value:
    """Where the products of a panel with a block begin, if all are kept."""
    return (panel * plan.blocks + block) * (plan.places * plan.product)
