"""Moves: every way in which elements are read and written, of every width, with tails."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.graph import Builder, Value
from afterglow.instr import Buffer, Region
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.movement import Expand, Pad, Slice, Tile, Transpose
from afterglow.ops.shuffle import ChannelShuffle, DepthToSpace, SpaceToDepth
from afterglow.testing.ranged_checks import check_ranged, module_of
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DTYPES, DType, f32, i64, u8
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu.kernels.harness import Bench

TARGETS = {"host": Target.host(), "x86-64-v3": Target.of("x86-64-v3")}
MOVED = [d for name, d in DTYPES.items() if name not in ("c64", "c128", "str")]
each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)

PERMUTED = [
    ((3, 5), (1, 0)),
    ((37, 53), (1, 0)),
    ((3, 50), (1, 0)),
    ((50, 2), (1, 0)),
    ((4, 7, 64), (1, 0, 2)),
    ((2, 3, 9, 5), (0, 2, 3, 1)),
    ((2, 9, 5, 3), (0, 3, 1, 2)),
    ((2, 1, 4, 5, 6), (4, 2, 0, 3, 1)),
    ((20001,), (0,)),
    ((1, 1), (1, 0)),
]


def numbers(dtype: DType, *shape: int) -> Array:
    """Numbers whose every bit may be set."""
    rng = np.random.default_rng(len(shape))
    if dtype.name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    high = 256 if dtype.bits >= 8 else 1 << dtype.bits
    raw = rng.integers(0, high, (*shape, dtype.itemsize), np.uint8)
    return raw.view(dtype.numpy).reshape(shape)


def same_bits(result: Array, wanted: Array) -> None:
    """Moved elements are the same to the last bit, NaN too."""
    assert result.dtype == wanted.dtype
    assert np.ascontiguousarray(result).tobytes() == np.ascontiguousarray(wanted).tobytes()


def moved(bench: Bench, pieces: int) -> None:
    """Run a bench whose result is moved only."""
    for result, buffer in zip(bench.run(pieces), bench.steps[-1].outs, strict=True):
        same_bits(result, bench.values[buffer])


@each_target
@pytest.mark.parametrize(("shape", "perm"), PERMUTED, ids=str)
def test_transposes(target: Target, shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    for name in ("f32", "u8"):
        bench = Bench(target)
        x = bench.input(numbers(DTYPES[name], *shape), gaps=name == "u8")
        bench.step(Transpose(perm), x, stored=True, gaps=name == "u8")
        moved(bench, pieces=3)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_elements_of_every_type(dtype: DType) -> None:
    for shape in ((19, 21), (70, 3)):
        bench = Bench()
        bench.step(Transpose((1, 0)), bench.input(numbers(dtype, *shape)), stored=True)
        moved(bench, pieces=2)


@each_target
@pytest.mark.parametrize(("shape", "perm"), [((37, 20), (1, 0)), ((2, 30, 3), (0, 2, 1))], ids=str)
def test_steps_after_a_transpose(
    target: Target, shape: tuple[int, ...], perm: tuple[int, ...]
) -> None:
    for pieces in (1, 3):
        bench = Bench(target)
        x = bench.input(_floats(*shape), gaps=True)
        y = bench.step(Transpose(perm), x)
        bias = bench.input(_floats(y.type.shape[-1]))
        rest = bench.input(_floats(*y.type.shape), gaps=True)
        z = bench.step(Add(), bench.step(Add(), y, bias), rest)
        bench.step(Relu(), z, stored=True, gaps=True)
        bench.check(pieces)


@each_target
@pytest.mark.parametrize(
    ("shape", "wide"),
    [((2, 1), (4, 2, 3)), ((), (70,)), ((33,), (5, 33)), ((5, 1), (5, 40)), ((3, 2), (3, 2))],
    ids=str,
)
def test_expansions(target: Target, shape: tuple[int, ...], wide: tuple[int, ...]) -> None:
    for name in ("f32", "f16", "bool", "i64"):
        bench = Bench(target)
        x = bench.input(numbers(DTYPES[name], *shape), gaps=True)
        bench.step(Expand(wide), x, stored=True, gaps=True)
        moved(bench, pieces=2)


@pytest.mark.parametrize("name", ["f32", "u8", "f64"])
@pytest.mark.parametrize(
    ("start", "strides"),
    [(0, (40, 2)), (99, (-33, -1)), (0, (1, 4)), (5, (0, 1)), (3, (60, 7))],
    ids=str,
)
def test_copies_of_strided_views(name: str, start: int, strides: tuple[int, int]) -> None:
    _check_copy(DTYPES[name], (3, 33), start, strides, 0, (33, 1))


@pytest.mark.parametrize("name", ["f32", "u8"])
@pytest.mark.parametrize("strides", [(70, 2), (1, 3), (40, 1)], ids=str)
def test_copies_into_strided_views(name: str, strides: tuple[int, int]) -> None:
    _check_copy(DTYPES[name], (3, 33), 0, (33, 1), 4, strides)


def _check_copy(
    dtype: DType,
    shape: tuple[int, ...],
    start: int,
    strides: tuple[int, ...],
    to_start: int,
    to_strides: tuple[int, ...],
) -> None:
    bench = Bench()
    memory = numbers(dtype, 400)
    source, dest = bench.input(memory), bench.input(np.zeros_like(memory))
    src = _view(bench, source, shape, start, strides)
    dst = _view(bench, dest, shape, to_start, to_strides)
    bench.copy(dst, src, pieces=2)
    wanted = np.zeros_like(memory)
    dst.of(wanted)[...] = src.of(memory)
    same_bits(bench.memory[dest], wanted)


def _view(
    bench: Bench, base: Buffer, shape: tuple[int, ...], start: int, strides: tuple[int, ...]
) -> Buffer:
    type = TensorType(base.type.dtype, shape)
    view = Buffer(f"{base.name}.v", type, Region.INPUT, base=base, start=start, strides=strides)
    bench.memory[view] = bench.memory[base]
    return view


def _floats(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


B, S = ranged(Dim("b", 1, 5)), ranged(Dim("s", 1, 70))
RANGED_RUNS = [
    {"b": b, "s": s}
    for b, s in [(1, 1), (5, 2), (2, 7), (1, 15), (3, 16), (4, 17), (1, 33), (5, 63), (2, 70)]
]
each_target_name = pytest.mark.parametrize("target", TARGETS)


@each_target_name
@pytest.mark.parametrize("dtype", [f32, u8, i64], ids=str)
def test_moves_of_ranged_tensors_in_every_direction(dtype: DType, target: str) -> None:
    shapes = [(B, S, 12), (B, 12, S), (S, S), (3, S, 64), (S, 4, 3)]
    perms = [(0, 2, 1), (2, 1, 0)]

    def turned(b: Builder, *operands: Value) -> list[Value]:
        wanted = [(x, perm) for x in operands for perm in perms if x.type.rank == 3]
        return [
            b.emit(Transpose((1, 0)), operands[2]),
            *(b.emit(Transpose(perm), x) for x, perm in wanted),
        ]

    module = module_of([TensorType(dtype, shape) for shape in shapes], turned)
    check_ranged(module, RANGED_RUNS, target=target, tolerance=0)


@each_target_name
def test_steps_after_moves_of_ranged_tensors(target: str) -> None:
    def turned(b: Builder, x: Value, y: Value) -> list[Value]:
        return [
            b.emit(Relu(), b.emit(Transpose((2, 1, 0)), x)),
            b.emit(Relu(), b.emit(Transpose((1, 0)), y)),
            b.emit(Relu(), b.emit(Expand((B, S, S)), b.emit(Transpose((1, 0)), y))),
        ]

    module = module_of([TensorType(f32, (B, S, 12)), TensorType(f32, (S, S))], turned)
    check_ranged(module, RANGED_RUNS, target=target, tolerance=0)


@each_target_name
def test_windows_of_ranged_tensors(target: str) -> None:
    def cut(b: Builder, x: Value) -> list[Value]:
        return [
            b.emit(Slice((0, S - 1, 0), (B, 1, 6), (1, 1, 1)), x),
            b.emit(Slice((0, S, 1), (B, S, 5), (1, 1, 1)), x),
            b.emit(Slice((0, 0, 0), (B, S, 3), (1, 2, 2)), x),
            b.emit(Pad((0, 1, 2), (0, S, 1)), x),
            b.emit(Tile((2, 1, 3)), x),
        ]

    module = module_of([TensorType(f32, (B, 2 * S, 6))], cut)
    check_ranged(module, RANGED_RUNS, target=target, tolerance=0)


def test_shuffles_of_ranged_images() -> None:
    def shuffled(b: Builder, x: Value) -> list[Value]:
        return [
            b.emit(SpaceToDepth(2), x),
            b.emit(Relu(), b.emit(DepthToSpace(2), x)),
            b.emit(ChannelShuffle(3), x),
        ]

    module = module_of([TensorType(f32, (B, 2 * S, 4, 12))], shuffled)
    check_ranged(module, RANGED_RUNS, tolerance=0)
