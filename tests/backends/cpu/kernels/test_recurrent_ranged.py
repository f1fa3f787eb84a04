"""Recurrent layers whose steps and batches are known only as the code runs."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.driver.api import compile
from afterglow.graph import Builder, Function, Module
from afterglow.graph.value import Value
from afterglow.ops.recurrent import GRU, LSTM, RNN, Recurrent
from afterglow.testing.arrays import assert_close
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, i64
from afterglow.types.extent import Dim, ranged

STEPS, BATCH = ranged(Dim("t", 1, 12)), ranged(Dim("n", 1, 9))
RUNS = [{"t": t, "n": n} for t, n in [(1, 1), (2, 9), (7, 2), (12, 7)]]
GATES = {LSTM: 4, GRU: 3, RNN: 1}
OPS = [LSTM(), LSTM(reverse=True), GRU(), GRU(linear_before_reset=True), RNN()]


def weights(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def layer(
    op: Recurrent, steps: int, batch: int, *, width: int = 33, lengths: bool = False
) -> Module:
    module = Module()
    main = Function("main", module)
    rows = GATES[type(op)] * width
    operands: list[Value | None] = [
        main.input("x", TensorType(f32, (steps, batch, 10))),
        module.constant("weight", weights(rows, 10)),
        module.constant("recurrence", weights(rows, width)),
        module.constant("bias", weights(rows)),
    ]
    if isinstance(op, GRU):
        operands.append(module.constant("hidden_bias", weights(width)))
    operands.append(main.input("lengths", TensorType(i64, (batch,))) if lengths else None)
    operands.append(main.input("h", TensorType(f32, (batch, width))))
    for number, result in enumerate(Builder(main).emit_all(op, *operands)):
        main.output(f"y{number}", result)
    return module


@pytest.mark.parametrize("op", OPS, ids=str)
def test_steps_and_batches_of_any_number(op: Recurrent) -> None:
    check_ranged(layer(op, STEPS, BATCH), RUNS)


def test_steps_of_a_wide_layer_are_steps_of_the_program() -> None:
    check_ranged(layer(GRU(), STEPS, 1, width=400), [{"t": 3}, {"t": 12}])


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64"])
def test_shorter_vectors_have_lower_tiles(target: str) -> None:
    check_ranged(layer(LSTM(), STEPS, BATCH), RUNS, target=target)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_as_many_steps_as_there_are(threads: int) -> None:
    check_ranged(layer(LSTM(), STEPS, 3, width=256), RUNS, threads=threads)
    check_ranged(layer(GRU(), 5, BATCH, width=256), RUNS, threads=threads)


def test_sequences_end_where_their_lengths_say() -> None:
    module = layer(LSTM(), STEPS, BATCH, lengths=True)
    model = compile(module, cache=False)
    for run in RUNS:
        steps, batch = run["t"], run["n"]
        lengths = np.arange(batch, dtype=np.int64) % (steps + 1)
        feed = {"x": weights(steps, batch, 10), "lengths": lengths, "h": weights(batch, 33)}
        exact = compile(module.bind(run), backend="interpreter", cache=False)
        assert_close(model.run(None, feed), exact.run(None, feed), 1e-5)
