"""Fills, gathers, scatters and shuffles: the cases of the ops, and what those leave out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import can_write
from afterglow.graph import Builder, Function, Value
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import (
    Gather,
    GatherElements,
    GatherND,
    Iota,
    ScatterND,
    ScatterReduction,
)
from afterglow.ops.movement import Expand, Reshape, Slice, Transpose
from afterglow.ops.random import RandomUniform
from afterglow.ops.scatter import ScatterElements
from afterglow.ops.shuffle import ChannelShuffle, DepthToSpace, ShuffleMode, SpaceToDepth
from afterglow.support.errors import TypeRuleError
from afterglow.testing.cases import fill, indexing, movement, scatter, shuffle
from afterglow.testing.cases.case import Case
from afterglow.testing.ranged_checks import check_ranged, module_of
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DTYPES, DType, f16, f32, i32, i64
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu.kernels.harness import Bench, best_kernel
from tests.backends.cpu.kernels.test_movement import (
    MOVED,
    RANGED_RUNS,
    B,
    S,
    each_target,
    each_target_name,
    moved,
    numbers,
)

MODULES = (fill, indexing, movement, scatter, shuffle)
LOWERED = (
    *("reshape", "concat", "slice", "pad", "tile", "dynamic_slice", "overwrite", "append_rows"),
)
"""Ops that become views, copies, fills and gathers before a backend sees them."""
CASES = [
    case
    for module in MODULES
    for case in module.CASES
    if case.op.mnemonic not in LOWERED
    and not any(type is not None and type.dtype.name == "str" for type in case.types)
]


@each_target
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_of_the_ops(case: Case, target: Target) -> None:
    for gaps in (False, True):
        bench = Bench(target)
        operands = [None if x is None else bench.input(x, gaps=gaps) for x in case.inputs()]
        out = bench.step(case.op, *operands, stored=True, gaps=gaps)
        if out.type.size and out.type.rank:
            bench.check(pieces=2)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_every_type_is_filled_and_gathered(dtype: DType) -> None:
    for op in (Fill((3, 37), 1.0, dtype), Iota((2, 2), 1, dtype)):
        if dtype.is_number or isinstance(op, Fill):
            bench = Bench()
            bench.step(op, stored=True)
            moved(bench, pieces=2)
    indices = np.array([[1, -1, 0], [2, 2, -3]], np.int32)
    for op, shape in ((Gather(0), (3, 37)), (Gather(1), (2, 3)), (GatherElements(1), (2, 3))):
        bench = Bench()
        data = bench.input(numbers(dtype, *shape))
        bench.step(op, data, bench.input(indices), stored=True)
        moved(bench, pieces=2)


def test_a_fill_loads_its_number_once_and_shuffles_nothing_else() -> None:
    bench = Bench(Target.of("x86-64-v4"))
    bench.step(Fill((3, 93), 1.5, f32), stored=True, gaps=True)
    text = best_kernel(bench.job(), bench.target).module.text
    assert text.count(" = load ") == 1
    assert text.count(" = shufflevector ") == 1


@each_target
@pytest.mark.parametrize("name", ["i8", "u8", "i32", "u64"])
def test_embeddings(target: Target, name: str) -> None:
    rng = np.random.default_rng(0)
    dtype = DTYPES[name].numpy
    indices = rng.integers(-50 if name.startswith("i") else 0, 50, (3, 17)).astype(dtype)
    for gaps in (False, True):
        bench = Bench(target)
        table = bench.input(_floats(50, 4, 33), gaps=gaps)
        bench.step(Gather(0), table, bench.input(indices, gaps=gaps), stored=True, gaps=gaps)
        moved(bench, pieces=3)


@each_target
@pytest.mark.parametrize(
    "op", [Gather(0), Gather(1), GatherElements(0), GatherElements(1)], ids=str
)
def test_steps_after_a_gather(target: Target, op: Gather | GatherElements) -> None:
    for pieces in (1, 3):
        bench = Bench(target)
        indices = np.random.default_rng(0).integers(-9, 9, (9, 19))
        x = bench.step(op, bench.input(_floats(9, 19), gaps=True), bench.input(indices))
        y = bench.step(Add(), x, bench.input(_floats(*x.type.shape)))
        bench.step(Relu(), y, stored=True, gaps=True)
        bench.check(pieces)


def test_steps_after_counting() -> None:
    bench = Bench()
    counts = bench.step(Iota((3, 21), 1, DTYPES["f32"]))
    bench.step(Add(), counts, bench.input(_floats(3, 1)), stored=True, gaps=True)
    bench.check(pieces=2)


@pytest.mark.parametrize("op", [Gather(0), GatherElements(0), GatherND()], ids=str)
def test_indices_out_of_range_stay_inside(op: Gather) -> None:
    bench = Bench()
    data, indices = _floats(4, 1), np.array([[3], [2], [0]])
    bench.step(op, bench.input(data), bench.input(indices), stored=True)
    bench.memory[bench.steps[0].ins[1]][:] = [99, 4, -99]
    assert bench.run()[0].reshape(-1).tolist() == data[[3, 3, 0], 0].tolist()


def test_nothing_is_gathered_from_nothing() -> None:
    bench = Bench()
    data, indices = bench.input(_floats(1, 0)), bench.input(np.zeros(2, np.int64))
    bench.step(Gather(0), data, indices, stored=True)
    assert not can_write(bench.job())


@pytest.mark.parametrize("reduction", ScatterReduction, ids=lambda r: r.value)
@pytest.mark.parametrize("name", ["f32", "bf16", "u8", "i64"])
def test_scatters_of_many_types(name: str, reduction: ScatterReduction) -> None:
    rng = np.random.default_rng(0)
    data, updates, slices = (
        rng.uniform(0, 3, shape).astype(DTYPES[name].numpy)
        for shape in ((7, 37), (5, 37), (2, 5, 37))
    )
    for axis in (0, 1):
        bench = Bench(Target.of("x86-64-v3") if axis else None)
        indices = rng.integers(-7, 7, (5, 37))
        operands = [bench.input(x, gaps=axis == 1) for x in (data, indices, updates)]
        bench.step(ScatterElements(axis, reduction), *operands, stored=True, gaps=True)
        bench.check(pieces=3)
    for gaps in (False, True):
        bench = Bench(Target.of("x86-64-v3") if gaps else None)
        tuples = rng.integers(-7, 7, (2, 5, 1))
        operands = [bench.input(x, gaps=gaps) for x in (data, tuples, slices)]
        bench.step(ScatterND(reduction), *operands, stored=True, gaps=gaps)
        bench.check(pieces=3)


@pytest.mark.parametrize("name", ["f32", "f16"])
def test_scatter_in_place(name: str) -> None:
    bench = Bench()
    data, updates = (_floats(*shape).astype(DTYPES[name].numpy) for shape in ((6, 40), (3, 40)))
    operands = [bench.input(x) for x in (data, np.array([[1], [1], [-1]]), updates)]
    out = bench.step(ScatterND(ScatterReduction.ADD), *operands, stored=True)
    bench.memory[out] = bench.memory[operands[0]]
    bench.check(pieces=2)


@each_target
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (DepthToSpace(2), (1, 3, 5, 20)),
        (DepthToSpace(3, ShuffleMode.CRD), (2, 2, 3, 18)),
        (SpaceToDepth(2), (1, 4, 6, 35)),
        (SpaceToDepth(2, ShuffleMode.CRD), (1, 4, 6, 3)),
        (ChannelShuffle(3), (2, 5, 51)),
        (ChannelShuffle(8), (3, 72)),
        (ChannelShuffle(2, axis=0), (6, 17)),
    ],
    ids=str,
)
def test_shuffles(
    target: Target, op: DepthToSpace | SpaceToDepth | ChannelShuffle, shape: tuple[int, ...]
) -> None:
    for name in ("f32", "i8"):
        bench = Bench(target)
        x = bench.input(numbers(DTYPES[name], *shape), gaps=True)
        bench.step(op, x, stored=True, gaps=True)
        moved(bench, pieces=3)


def test_steps_after_depth_to_space() -> None:
    bench = Bench()
    x = bench.step(DepthToSpace(2), bench.input(_floats(1, 3, 5, 20), gaps=True))
    bench.step(Add(), x, bench.input(_floats(5)), stored=True, gaps=True)
    bench.check(pieces=3)


@pytest.mark.parametrize("name", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
def test_other_machines(name: str) -> None:
    steps = [
        (Transpose((1, 0)), [_floats(19, 37)]),
        (Transpose((1, 0)), [numbers(DTYPES["u8"], 3, 40)]),
        (Expand((9, 3, 5)), [_floats(3, 1)]),
        (Gather(0), [_floats(5, 9), np.array([1, 2])]),
        (GatherElements(1), [_floats(2, 9), np.ones((2, 7), np.int32)]),
        (ScatterND(ScatterReduction.MAX), [_floats(5, 9), np.array([[1]]), _floats(1, 9)]),
    ]
    for op, arrays in steps:
        bench = Bench(Target.of(name))
        bench.step(op, *map(bench.input, arrays), stored=True)
        assert compile_module(best_kernel(bench.job(), bench.target).module, bench.target)


def _floats(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def with_indices(limit: int | None) -> Callable[[Function], list[Array]]:
    """Inputs whose integers are places along an axis: of so many elements, or of the last input."""

    def inputs(function: Function) -> list[Array]:
        rng = np.random.default_rng(1)
        extent = function.inputs[-1].type.shape[0] if limit is None else limit
        return [
            rng.standard_normal(x.type.shape).astype(x.type.dtype.numpy)
            if x.type.dtype.is_float
            else rng.integers(-extent, extent, x.type.shape).astype(x.type.dtype.numpy)
            for x in function.inputs
        ]

    return inputs


@each_target_name
def test_ranged_numbers_of_indices(target: str) -> None:
    def gathered(b: Builder, table: Value, rows: Value, columns: Value) -> list[Value]:
        first = b.emit(Slice((0, 0), (1, 24), (1, 1)), table)
        return [
            b.emit(Gather(0), table, rows),
            b.emit(Gather(1), table, columns),
            b.emit(Relu(), b.emit(Gather(1), table, columns)),
            b.emit(GatherElements(1), b.emit(Expand((B, 24)), first), rows),
            b.emit(GatherND(), table, b.emit(Reshape((B, S, 1)), rows)),
        ]

    types = [TensorType(f32, (24, 24)), TensorType(i64, (B, S)), TensorType(i32, (S,))]
    check_ranged(
        module_of(types, gathered), RANGED_RUNS, target=target, inputs=with_indices(24), tolerance=0
    )


def test_indices_into_ranged_tensors() -> None:
    def gathered(b: Builder, one: Value, few: Value, tuples: Value, data: Value) -> list[Value]:
        turned = b.emit(Transpose((1, 0, 2)), data)
        return [
            b.emit(Gather(0), data, one),
            b.emit(Gather(1), turned, few),
            b.emit(GatherND(1), turned, tuples),
        ]

    types = [
        TensorType(i64, ()),
        TensorType(i64, (3,)),
        TensorType(i64, (B, S, 1)),
        TensorType(f32, (S, B, 5)),
    ]
    check_ranged(module_of(types, gathered), RANGED_RUNS, inputs=with_indices(None), tolerance=0)


@each_target_name
@pytest.mark.parametrize("dtype", [f32, f16], ids=str)
def test_scatters_into_ranged_tensors(dtype: DType, target: str) -> None:
    def scattered(b: Builder, at: Value, news: Value, data: Value) -> list[Value]:
        across = [b.emit(Transpose((1, 0)), x) for x in (data, at, news)]
        results = []
        for reduction in (ScatterReduction.NONE, ScatterReduction.ADD):
            tuples = b.emit(Reshape((3, 1)), b.emit(Slice((0, 0), (3, 1), (1, 1)), at))
            results += [
                b.emit(ScatterND(reduction), data, tuples, news),
                b.emit(ScatterElements(0, reduction), data, at, news),
                b.emit(ScatterElements(1, reduction), *across),
            ]
        return results

    types = [TensorType(i64, (3, B)), TensorType(dtype, (3, B)), TensorType(dtype, (S, B))]
    module = module_of(types, scattered)
    check_ranged(module, RANGED_RUNS, target=target, inputs=with_indices(None))


def test_numbers_that_fill_ranged_tensors() -> None:
    def filled(b: Builder, x: Value, run: Value) -> list[Value]:
        counted = b.emit(Iota((B, S), 1, f32))
        return [
            b.emit(RandomUniform((B, S, 3), f32, seed=7), run),
            b.emit(Fill((S, B), 2.5, f32)),
            b.emit(Add(), x, counted),
            b.emit(Iota((S, 3), 0, i64)),
        ]

    types = [TensorType(f32, (B, S)), TensorType(i64, ())]
    check_ranged(module_of(types, filled), RANGED_RUNS, tolerance=0)


def test_tuples_of_a_ranged_length_are_refused() -> None:
    types = [TensorType(f32, (4, 4)), TensorType(i64, (3, ranged(Dim("n", 1, 2))))]
    with pytest.raises(TypeRuleError) as refused:
        GatherND().infer(*types)
    assert refused.value.what == "how long the tuples of indices are depends on n (1..2)"
