"""Units that are panels with blocks: every one is done once, in the order that a plan wants."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.kernels.conv.geometry import Geometry
from afterglow.backends.cpu.kernels.conv.tiling import ConvPlan
from afterglow.backends.cpu.micro.unit_order import UnitOrder
from afterglow.ops.convolution import Conv
from afterglow.types.dtype import f32
from tests.backends.cpu.kernels.harness import Bench

TARGET = Target.of("x86-64-v3")
NEAR = TARGET.caches.l2 // 2


@pytest.mark.parametrize(
    ("rows", "weights", "order"),
    [
        (NEAR + 1, 10, UnitOrder.BLOCKS),
        (NEAR, 10, UnitOrder.CHUNKS),
        (10, 20, UnitOrder.PANELS),
        (NEAR + 1, NEAR + 1, UnitOrder.PANELS),
    ],
)
def test_few_weights_are_read_by_every_thread(rows: int, weights: int, order: UnitOrder) -> None:
    assert UnitOrder.of(rows, weights, TARGET) is order


def test_any_ranges_of_units_give_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    bench = Bench(TARGET)
    x = bench.input(rng.standard_normal((1, 40, 40, 24)).astype(np.float32))
    weight = bench.constant(rng.standard_normal((96, 1, 1, 24)).astype(np.float32))
    bench.step(Conv((1, 1), (0,) * 4, (1, 1)), x, weight, stored=True)
    step = bench.steps[0]
    plan = ConvPlan.of(Geometry.of(step, step.required[0].strides), TARGET, f32)
    assert plan.order is UnitOrder.CHUNKS
    assert min(plan.blocks, plan.panels.count) > 1
    (whole,) = (result.copy() for result in bench.run(pieces=1))
    for pieces in (2, 3, 5, 16, plan.units):
        (cut,) = bench.run(pieces)
        np.testing.assert_array_equal(whole, cut)
    bench.check()
