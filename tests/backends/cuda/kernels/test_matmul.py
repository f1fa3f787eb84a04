"""Matrix products in tiles, and of few rows, at extents that tiles do not divide."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install afterglow[cuda]")

from afterglow.backends.cuda.kernels import matmul
from afterglow.backends.cuda.kernels.strips import ROWS
from afterglow.instr import KernelPlan
from afterglow.ops.linear import MatMul
from tests.backends.cuda.kernels.jobs import EACH_ARCH, TARGET, check, compiled, plans, written
from tests.backends.cuda.kernels.tiles import floats, in_tiles, product

BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("op", "lhs", "rhs", "constant"),
    [
        (MatMul(), (70, 96), (96, 50), True),
        (MatMul(), (2, 3, 20, 100), (100, 40), True),
        (MatMul(False, True), (2, 3, 20, 100), (40, 100), True),
        (MatMul(), (2, 3, 20, 64), (3, 64, 40), False),
        (MatMul(True), (2, 3, 33, 20), (3, 33, 40), False),
        (MatMul(True, True), (2, 1, 33, 20), (3, 40, 33), False),
    ],
)
def test_tiles_are_masked_where_extents_end(op, lhs, rhs, constant):
    made = product(op, floats("f2", *lhs), floats("f2", *rhs), constant=constant)
    check(made, 1e-2, in_tiles(made, 32, 32, 32))


@pytest.mark.parametrize(
    ("left", "right", "tolerance"),
    [("f4", "f4", 1e-5), ("f4", "f2", 1e-5), ("f4", BF16, 1e-5), (BF16, BF16, 1e-1)],
)
def test_every_float_is_summed_up_in_f32(left, right, tolerance):
    made = product(MatMul(), floats(left, 40, 70), floats(right, 70, 50))
    check(made, tolerance, in_tiles(made, 32, 32, 32))


def test_operands_may_lie_in_any_order():
    made = product(MatMul(), floats("f2", 7, 5, 64), floats("f2", 64, 50), order=(1, 0, 2))
    check(made, 1e-2, in_tiles(made, 16, 16, 32))


@pytest.mark.parametrize("splits", [2, 3, 4])
def test_programs_that_share_terms_leave_their_counters_at_zero(splits):
    made = product(MatMul(), floats("f2", 3, 70, 300), floats("f2", 3, 300, 50), constant=False)
    check(made, 1e-2, in_tiles(made, 32, 32, 32, splits))


def test_a_weight_is_read_as_it_is_if_its_terms_lie_together():
    straight = product(MatMul(False, True), floats("f2", 40, 64), floats("f2", 50, 64))
    crosswise = product(MatMul(), floats("f2", 40, 64), floats("f2", 64, 50))
    for made, copied in ((straight, False), (crosswise, True)):
        _, source = written(made.job(), in_tiles(made, 32, 32, 32), TARGET, 0)
        assert any(type(each).__name__ == "Packed" for each in source.parameters) is copied


ROW_CASES = [
    (MatMul(), (1, 768), (768, 100), True, (4, 256), 1),
    (MatMul(), (3, 768), (768, 100), True, (4, 256), 3),
    (MatMul(False, True), (3, 1, 700), (101, 700), True, (4, 512), 1),
    (MatMul(), (3, 2, 700), (3, 700, 100), False, (16, 256), 1),
]


def _strip(shape: tuple[int, int], splits: int, made):
    def change(plan: KernelPlan) -> KernelPlan:
        rows = 1 if splits == 1 else 3
        settings = {"tile": shape, "warps": 4, "split": splits}
        room = {"partials": -(-100 // shape[0]) * rows * shape[0] * splits * 4}
        return replace(plan, algorithm=ROWS, settings=settings, workspace=room)

    return change


@pytest.mark.parametrize(("op", "lhs", "rhs", "constant", "shape", "splits"), ROW_CASES)
def test_few_rows_are_multiplied_by_vectors_of_terms(op, lhs, rhs, constant, shape, splits):
    made = product(op, floats("f4", *lhs), floats("f4", *rhs), constant=constant)
    check(made, 1e-5, _strip(shape, splits, made))


def test_a_row_is_not_multiplied_in_tiles():
    made = product(MatMul(), floats("f2", 1, 768), floats("f2", 768, 2304))
    best = matmul.plans(made.job(), TARGET)[0]
    assert best.algorithm == ROWS
    check(made, 1e-2)


@pytest.mark.slow
@EACH_ARCH
def test_blocks_are_multiplied_by_tensor_cores_and_read_by_vectors(arch):
    made = product(MatMul(), floats("f2", 256, 128), floats("f2", 128, 256))
    target = replace(TARGET, arch=arch, name=f"sm_{arch}")
    _, source = written(made.job(), in_tiles(made, 64, 64, 64), target, 0)
    (found,) = compiled(source, arch=arch)
    assert found.shared <= 64 * 1024


def test_an_operand_may_have_a_stride_of_zero():
    made = product(MatMul(), floats("f4", 20, 33), floats("f4", 33, 30), behind=False)
    step = made.steps[0]
    lhs, rhs = step.operand(0), step.operand(1)
    row = made.arrays[lhs][:1].copy()
    repeated = lhs.along(lhs.type.shape, (0, 1))
    made.arrays[repeated] = row
    step.ins = (repeated, rhs)
    made.wanted[step.outs[0]] = np.repeat(row @ made.wanted[rhs], 20, axis=0)
    check(made, 1e-5, in_tiles(made, 16, 16, 32))


def test_weights_of_few_rows_are_read_before_the_kernel_waits():
    made = product(MatMul(), floats("f2", 1, 96), floats("f2", 96, 50), behind=False)
    source = check(
        made, 1e-2, number=next(n for n, plan in enumerate(plans(made)) if plan.algorithm == ROWS)
    )
    lines = source.text.splitlines()
    wait = next(n for n, line in enumerate(lines) if "gdc_wait()" in line)
    assert any("tl.load" in line for line in lines[:wait])
    assert any("tl.load" in line for line in lines[wait:])
