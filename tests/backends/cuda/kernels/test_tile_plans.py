"""Estimates of tiles against what was measured on an H200, each layer with its best tile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afterglow.backends.cuda.kernels import conv, matmul
from afterglow.backends.cuda.kernels.conv_layout import ConvLayout
from afterglow.backends.cuda.kernels.matrices import Layout
from afterglow.backends.cuda.kernels.strips import ROWS
from afterglow.backends.cuda.kernels.tile import PARTIALS, Tile
from afterglow.backends.cuda.kernels.tile_cost import shared_bytes
from afterglow.backends.cuda.kernels.tile_results import operations_after
from afterglow.backends.cuda.target import kind_of
from afterglow.backends.job import Job
from afterglow.graph import Op
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.activation import Gelu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.types import TensorType
from afterglow.types.dtype import f16

H200 = replace(kind_of("sm_90"), bandwidth=4.8e12)
# extent, channels, columns, window, stride, residual; then microseconds for one image, the tile
# and splits of that, and microseconds for 32 images
LAYERS = [
    ((56, 64, 64, 1, 1, False), 2.3, (32, 64, 64, 1), 7.7),
    ((56, 64, 64, 3, 1, False), 3.6, (64, 64, 64, 1), 23.4),
    ((56, 64, 256, 1, 1, False), 2.6, (64, 64, 64, 1), 22.2),
    ((56, 64, 256, 1, 1, True), 2.9, (64, 64, 64, 1), 32.9),
    ((56, 256, 64, 1, 1, False), 2.8, (64, 32, 128, 1), 20.9),
    ((56, 128, 128, 3, 2, False), 4.6, (32, 32, 128, 1), 19.2),
    ((56, 256, 512, 1, 2, False), 3.0, (64, 64, 64, 1), 20.3),
    ((28, 128, 512, 1, 1, True), 2.8, (64, 64, 128, 1), 24.7),
    ((28, 512, 128, 1, 1, False), 3.1, (64, 32, 128, 1), 9.5),
    ((28, 128, 128, 3, 1, False), 4.6, (32, 32, 128, 1), 18.4),
    ((14, 256, 1024, 1, 1, True), 3.0, (64, 32, 128, 1), 12.6),
    ((14, 1024, 256, 1, 1, False), 3.7, (16, 32, 128, 1), 8.4),
    ((14, 256, 256, 3, 1, False), 5.6, (16, 32, 256, 1), 18.0),
    ((14, 512, 512, 3, 2, False), 6.7, (16, 64, 128, 4), 21.1),
    ((14, 1024, 2048, 1, 2, False), 4.3, (64, 32, 128, 1), 14.2),
    ((7, 2048, 512, 1, 1, False), 5.0, (16, 32, 256, 1), 9.9),
    ((7, 512, 512, 3, 1, False), 6.8, (16, 64, 128, 4), 21.1),
]
GEMMS = [
    ((128, 768, 2304), 3.9),
    ((128, 768, 768), 3.5),
    ((128, 768, 3072), 5.1),
    ((128, 3072, 768), 6.8),
    ((4096, 768, 2304), 29.2),
    ((4096, 768, 768), 12.7),
    ((4096, 768, 3072), 46.6),
    ((4096, 3072, 768), 35.2),
]


def _job(op: Op, x: tuple[int, ...], weight: tuple[int, ...], *, residual: bool = False) -> Job:
    given = Buffer("x", TensorType(f16, x), Region.INPUT)
    factors = Buffer("w", TensorType(f16, weight), Region.CONSTANT)
    type = op.infer(given.type, factors.type)
    assert isinstance(type, TensorType)
    out, final = Buffer("y", type, Region.ARENA), Buffer("z", type, Region.ARENA)
    anchor = OpInstr(op, (out,), (given, factors))
    if not residual:
        return Job(anchor)
    other = Buffer("r", type, Region.INPUT)
    return Job(anchor, (), (OpInstr(Add(), (final,), (out, other)),), frozenset((out,)))


def _layer(images: int, layer: tuple[int, int, int, int, int, bool]) -> Job:
    extent, channels, columns, window, stride, residual = layer
    op = Conv((stride, stride), (window // 2,) * 4, (1, 1))
    x, weight = (images, extent, extent, channels), (columns, window, window, channels)
    return _job(op, x, weight, residual=residual)


def _product(rows: int, terms: int, columns: int) -> Job:
    return _job(MatMul(), (rows, terms), (terms, columns))


def _estimates() -> list[tuple[str, float, float]]:
    found = []
    for layer, one, _, many in LAYERS:
        for images, measured in ((1, one), (32, many)):
            cost = conv.plans(_layer(images, layer), H200)[0].cost
            found.append((f"{layer} x {images}", cost / H200.flops * 1e6, measured))
    for shape, measured in GEMMS:
        cost = matmul.plans(_product(*shape), H200)[0].cost
        found.append((f"{shape}", cost / H200.flops * 1e6, measured))
    return found


def test_estimates_follow_measurements():
    found = _estimates()
    for name, estimate, measured in found:
        print(f"{name:45s} estimated {estimate:6.1f} us, measured {measured:6.1f} us")
    logs = np.log([(estimate, measured) for _, estimate, measured in found])
    ratios = np.exp(np.abs(logs[:, 0] - logs[:, 1]))
    assert np.corrcoef(logs.T)[0, 1] > 0.97
    assert np.median(ratios) < 1.2
    assert ratios.max() < 1.6


def test_the_best_tiles_of_measurements_are_among_the_first():
    near = 0
    for layer, _, best, _ in LAYERS:
        job = _layer(1, layer)
        tiles = [Tile.of(plan.settings) for plan in conv.plans(job, H200)]
        places = [(t.rows, t.columns, t.terms, t.splits) for t in tiles]
        near += best in places[:8]
    assert near >= len(LAYERS) - 3


def test_all_plans_fit_the_shared_memory_and_have_room_for_their_partial_sums():
    for arch in ("sm_80", "sm_89", "sm_90"):
        target = kind_of(arch)
        job = _product(64, 4096, 64)
        work = Layout(job.anchor).work(job)
        for plan in matmul.plans(job, target):
            tile = Tile.of(plan.settings)
            assert shared_bytes(tile, work) <= target.shared_bytes
            assert plan.workspace.get(PARTIALS, 0) == tile.partial_bytes(work.extents)


def test_a_few_plans_are_left_to_be_tried():
    for layer, *_ in LAYERS:
        plans = conv.plans(_layer(1, layer), H200)
        assert 8 <= len({plan.variant for plan in plans}) == len(plans) <= 20


def test_a_single_row_is_read_at_the_speed_of_the_memory():
    plan = matmul.plans(_product(1, 768, 50257), H200)[0]
    assert plan.algorithm == ROWS
    assert plan.cost / H200.flops < 2 * 768 * 50257 * 2 / H200.bandwidth


def test_few_channels_are_taken_line_by_line():
    layout = ConvLayout(_layer(1, (224, 3, 64, 7, 2, False)).anchor)
    assert (layout.line, layout.lead) == (32, 1)
    assert layout.steps(layout.line) == 7


def _with_gelu(rows: int, terms: int, columns: int) -> Job:
    anchor = _product(rows, terms, columns).anchor
    assert anchor is not None
    (made,) = anchor.outs
    final = Buffer("z", made.type, Region.ARENA)
    return Job(anchor, (), (OpInstr(Gelu(), (final,), (made,)),), frozenset((made,)))


def test_operations_behind_a_product_are_counted():
    assert operations_after(_with_gelu(4096, 768, 3072), H200) > 20
    assert operations_after(_job(MatMul(), (8, 16), (16, 32), residual=True), H200) <= 4


def test_many_operations_are_hidden_by_the_products_of_another_program():
    job = _with_gelu(4096, 768, 3072)
    tile = Tile.of(matmul.plans(job, H200)[0].settings)
    assert 2 * shared_bytes(tile, Layout(_anchor(job)).work(job)) <= H200.shared_bytes
    source = matmul.write_matmul(job, H200, matmul.plans(job, H200)[0])
    assert 2 * source.registers * 32 * source.warps == 65536


def test_a_program_that_is_alone_may_use_all_registers():
    job = _product(128, 768, 768)
    assert matmul.write_matmul(job, H200, matmul.plans(job, H200)[0]).registers == 0


def _anchor(job: Job) -> OpInstr:
    assert job.anchor is not None
    return job.anchor
