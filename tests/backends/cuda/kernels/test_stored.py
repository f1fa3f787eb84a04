"""Products with stored matrices give what the op says, whatever they are stored as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from afterglow.backends.cuda.kernels.families import ANCHORS
from afterglow.backends.cuda.kernels.matrices import Layout
from afterglow.backends.cuda.kernels.packed_matrix import PackedMatrix
from afterglow.backends.cuda.kernels.strips import ROWS
from afterglow.backends.cuda.kernels.tile import Tile
from afterglow.backends.cuda.target import kind_of
from afterglow.graph import Op
from afterglow.instr import KernelPlan
from afterglow.ops.activation import Relu
from afterglow.ops.stored import Activations, StoredGather, StoredMatMul
from afterglow.testing.cases import Case
from afterglow.testing.cases.stored import CASES
from tests.backends.cuda.kernels.jobs import (
    EACH_ARCH,
    TARGET,
    Made,
    check,
    compiled,
    plans,
    source_for,
)

RANDOM = np.random.default_rng(3)
TYPES = {
    "i8": np.int8,
    "u8": np.uint8,
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


def _made(op: Op, x: np.ndarray, *arrays: np.ndarray | None, computed: bool = True) -> Made:
    """An op with a matrix, and a step behind it; only the op if its results are not wanted."""
    made = Made()
    operands = [None if each is None else made.constant(each) for each in arrays]
    result = made.add(op, made.given(x), *operands, anchor=True, computed=computed)
    if computed:
        made.add(Relu(), result)
    return made


def _numbers(kind: str, *shape: int) -> np.ndarray:
    """Numbers of all sizes that a type has; floats finite."""
    dtype = np.dtype(TYPES[kind])
    if kind.startswith("e"):
        return (RANDOM.standard_normal(shape) * 4.0 ** RANDOM.integers(-6, 3, shape)).astype(dtype)
    info = ml_dtypes.iinfo(dtype)
    return RANDOM.integers(int(info.min), int(info.max) + 1, shape).astype(dtype)


def _stored(kind: str, rows: int, depth: int, columns: int, block: int, lhs: str = "f4") -> Made:
    """A product with a matrix of a type: with zero points where they are integers without sign."""
    shape = (columns, -(-depth // block)) if block else (columns,)
    scale = RANDOM.uniform(0.001, 0.01, shape).astype("f4")
    zero = _numbers(kind, *shape) if kind.startswith("u") else None
    x = RANDOM.standard_normal((rows, depth)).astype(lhs)
    return _made(StoredMatMul(block), x, _numbers(kind, columns, depth), scale, zero)


def _in_tiles(made: Made, *shape: int) -> Callable[[KernelPlan], KernelPlan]:
    assert made.anchor is not None
    extents = Layout(made.anchor).extents
    tile = Tile(*shape[:3], 4, 3, *shape[3:])
    return lambda plan: tile.plan(extents, plan.cost)


def _in_strips(columns: int, terms: int, splits: int = 1) -> Callable[[KernelPlan], KernelPlan]:
    settings = {"tile": (columns, terms), "warps": 4, "split": splits}
    return lambda plan: replace(
        plan, algorithm=ROWS, settings=settings, workspace={"partials": 1 << 16}
    )


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c.op, StoredMatMul)], ids=str)
def test_cases_of_the_op(case: Case) -> None:
    made = _made(case.op, *case.inputs())
    assert made.anchor is not None
    found = ANCHORS.find(made.anchor, TARGET)
    assert (found is None) is (case.op.activations is Activations.INT8)
    if found is not None:
        check(made, case.tolerance)


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c.op, StoredGather)], ids=str)
def test_cases_of_looking_up(case: Case) -> None:
    check(_made(case.op, *case.inputs()), 1e-6)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("rows", "depth", "block"), [(1, 200, 32), (3, 1100, 0), (2, 700, 512)])
def test_a_few_rows(kind: str, rows: int, depth: int, block: int) -> None:
    check(_stored(kind, rows, depth, 21, block), 1e-3, _in_strips(4, 1024, 1 + (depth > 1024)))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("rows", "depth", "block"), [(17, 200, 32), (64, 300, 0), (20, 257, 128)])
def test_many_rows(kind: str, rows: int, depth: int, block: int) -> None:
    made = _stored(kind, rows, depth, 40, block)
    check(made, 1e-3, _in_tiles(made, 32, 32, 256, 2))


@pytest.mark.parametrize("lhs", ["f2", ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", ["u4", "i8", "e4m3", "e5m2"])
@pytest.mark.parametrize(("rows", "block"), [(2, 32), (20, 0), (20, 32)])
def test_factors_of_sixteen_bits(rows: int, block: int, kind: str, lhs: str) -> None:
    made = _stored(kind, rows, 300, 40, block, lhs)
    change = _in_strips(4, 512) if rows < 4 else _in_tiles(made, 32, 32, 256)
    check(made, 1e-2 if lhs == "f2" else 6e-2, change)


@pytest.mark.parametrize("rows", [3, 20])
def test_floats_of_eight_bits_are_taken_apart_where_no_instruction_does(rows: int) -> None:
    """All finite numbers of the type, subnormal ones too."""
    bits = np.delete(np.arange(256), [0x7F, 0xFF]).astype("u1")
    stored = np.resize(bits, (24, 256)).view(TYPES["e4m3"])
    x = RANDOM.standard_normal((rows, 256)).astype("f4")
    made = _made(StoredMatMul(), x, stored, np.full(24, 0.01, "f4"))
    check(made, 1e-4, target=kind_of("sm_80"))


@pytest.mark.parametrize("block", [3, 16, 48])
@pytest.mark.parametrize("rows", [2, 9])
def test_vectors_of_numbers_may_have_several_scales(rows: int, block: int) -> None:
    made = _stored("u4", rows, 130, 19, block)
    change = _in_strips(4, 1024) if rows < 8 else _in_tiles(made, 16, 32, 256)
    check(made, 1e-3, change)


@pytest.mark.parametrize("change", ["rows", "tiles"])
@pytest.mark.parametrize("block", [0, 32])
def test_minimums_are_added_to_reals(block: int, change: str) -> None:
    shape = (24, 5) if block else (24,)
    stored, scale = _numbers("u4", 24, 160), RANDOM.uniform(0.001, 0.01, shape).astype("f2")
    x, minimum = RANDOM.standard_normal((3, 160)).astype("f4"), -8 * scale
    made = _made(StoredMatMul(block), x, stored, scale, None, minimum)
    check(made, 1e-3, _in_strips(4, 1024) if change == "rows" else _in_tiles(made, 16, 16, 256))


def test_numbers_that_need_four_bits_take_four() -> None:
    stored = RANDOM.integers(-8, 8, (24, 256)).astype("i1")
    x, scale = RANDOM.standard_normal((3, 256)).astype("f4"), np.full((24, 8), 0.01, "f4")
    made = _made(StoredMatMul(32, 4), x, stored, scale)
    assert made.anchor is not None
    assert PackedMatrix.of(made.anchor).nbytes == stored.size / 2
    check(made, 1e-4)


def test_estimates_count_the_bytes_that_are_stored() -> None:
    def cost(kind: str) -> float:
        x, stored = np.zeros((1, 4096), "f4"), np.zeros((4096, 4096), TYPES[kind])
        made = _made(StoredMatMul(), x, stored, np.ones(4096, "f4"), computed=False)
        return plans(made)[0].cost

    assert 0.45 < cost("u4") / cost("u8") < 0.9


@EACH_ARCH
@pytest.mark.parametrize("kind", ["u4", "e4m3"])
def test_a_few_rows_compile_without_spilling(kind: str, arch: int) -> None:
    (found,) = compiled(source_for(_stored(kind, 1, 256, 64, 32), arch), arch=arch)
    assert found.stack == 0


@pytest.mark.slow
@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("kind", ["u4", "e4m3"])
@pytest.mark.parametrize("lhs", ["f4", "f2"])
def test_all_forms_compile_with_hardly_a_spill(kind: str, lhs: str, arch: int) -> None:
    sizes = [(1, 32), (40, 0), (40, 32), (512, 32)]
    made = [_stored(kind, rows, 512, 128, block, lhs) for rows, block in sizes]
    found = compiled(*(source_for(each, arch) for each in made), arch=arch)
    assert all(each.stack <= 16 for each in found)
