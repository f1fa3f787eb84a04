"""LSTM layers of recurrent bytes, on shapes of all sorts."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.graph import Builder, Function, Module
from afterglow.ops.quantized_lstm import QuantizedLSTM
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu.kernels.harness import Bench

TARGETS = ["host", "x86-64-v3", "x86-64"]
OPS = [QuantizedLSTM(), QuantizedLSTM(reverse=True, clip=0.9, recurrence_zero_point=-7)]
SHAPES = [
    # steps, batch, width
    (1, 1, 1),
    (5, 1, 32),
    (4, 1, 40),
    (3, 5, 16),
    (2, 13, 33),
    (3, 2, 256),
]


def arrays_of(shape: tuple[int, ...]) -> dict[str, Array]:
    """Every operand."""
    steps, batch, width = shape
    rng = np.random.default_rng(sum(shape))
    return {
        "gates": rng.standard_normal((steps, batch, 4 * width)).astype(np.float32),
        "recurrence": rng.integers(-128, 128, (4 * width, width)).astype(np.int8),
        "scale": rng.uniform(0.001, 0.004, 4 * width).astype(np.float32),
        "lengths": np.arange(batch, dtype=np.int32) % (steps + 1),
        "initial_h": rng.standard_normal((batch, width)).astype(np.float32),
        "initial_c": rng.standard_normal((batch, width)).astype(np.float32),
    }


def bench_of(
    op: QuantizedLSTM, shape: tuple[int, ...], target: str = "host", operands: int = 6
) -> Bench:
    bench = Bench(Target.of(target))
    given = [
        bench.constant(array) if name == "recurrence" else bench.input(array)
        for name, array in [*arrays_of(shape).items()][:operands]
    ]
    bench.steps_of(op, *given, *[None] * (6 - operands))
    return bench


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_shapes(op: QuantizedLSTM, shape: tuple[int, ...], target: str) -> None:
    bench_of(op, shape, target).check(rtol=1e-5, atol=1e-6)


def test_operands_may_be_left_out() -> None:
    bench_of(OPS[1], SHAPES[2], operands=3).check(rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES[3:], ids=str)
def test_threads_change_nothing(shape: tuple[int, ...]) -> None:
    alone, shared = (bench_of(OPS[1], shape).run(threads) for threads in (1, 3))
    for a, b in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("width", [33, 256])
def test_steps_and_batches_of_any_number(width: int) -> None:
    steps, batch = ranged(Dim("t", 1, 6)), ranged(Dim("n", 1, 5))
    arrays, module = arrays_of((1, 1, width)), Module()
    main = Function("main", module)
    gates = main.input("gates", TensorType(f32, (steps, batch, 4 * width)))
    weights = (module.constant(name, arrays[name]) for name in ("recurrence", "scale"))
    for number, result in enumerate(Builder(main).emit_all(OPS[1], gates, *weights)):
        main.output(f"y{number}", result)
    check_ranged(module, [{"t": 1, "n": 5}, {"t": 6, "n": 2}])
