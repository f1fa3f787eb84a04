"""Element-wise steps over ranged tensors: rows and columns that only the code counts."""

from __future__ import annotations

import pytest

from afterglow.graph import Builder, Value
from afterglow.ops.activation import Relu, Sigmoid
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Less, Mul, Where
from afterglow.ops.movement import slice_axis
from afterglow.testing.ranged_checks import check_ranged, module_of
from afterglow.types import TensorType
from afterglow.types.dtype import f16, f32, i32
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu.kernels.test_movement import RANGED_RUNS, B, S, each_target_name

N = ranged(Dim("n", 1, 9000))


@each_target_name
def test_ranged_axes_broadcast_at_any_place(target: str) -> None:
    def steps(b: Builder, x: Value, y: Value, rows: Value, one: Value) -> list[Value]:
        turned = b.emit(Mul(), b.emit(Add(), y, rows), one)
        return [
            b.emit(Mul(), b.emit(Add(), x, rows), one),
            b.emit(Relu(), turned),
            b.emit(Where(), b.emit(Less(), x, rows), x, one),
        ]

    shapes = [(B, S, 7), (B, S, S), (S, 1), (B, 1, 1)]
    module = module_of([TensorType(f32, shape) for shape in shapes], steps)
    check_ranged(module, RANGED_RUNS, target=target)


def test_ranged_parts_of_rows_and_narrow_types() -> None:
    def steps(b: Builder, x: Value, y: Value) -> list[Value]:
        first, second = (b.emit(slice_axis(x.type, 2, at, 12), x) for at in (0, 12))
        return [
            b.emit(Mul(), first, b.emit(Sigmoid(), second)),
            b.emit(Add(), y, y),
            b.emit(Cast(i32), b.emit(Cast(f32), y)),
        ]

    types = [TensorType(f32, (B, S, 24)), TensorType(f16, (B, S))]
    check_ranged(module_of(types, steps), RANGED_RUNS)


@pytest.mark.parametrize("shape", [(N,), (2, N), (N, 2)], ids=str)
def test_columns_in_several_blocks(shape: tuple[int, ...]) -> None:
    def steps(b: Builder, x: Value, y: Value) -> list[Value]:
        return [b.emit(Relu(), b.emit(Add(), x, y))]

    module = module_of([TensorType(f32, shape), TensorType(f32, shape[-1:])], steps)
    check_ranged(module, [{"n": n} for n in (1, 17, 4095, 4096, 4097, 8192, 9000)])
