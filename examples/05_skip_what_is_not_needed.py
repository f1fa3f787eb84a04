"""Lesson 5: predicates. Skip the second half of a network if the first half is confident."""

from __future__ import annotations

from time import perf_counter

import numpy as np

import afterglow as ag
from afterglow.graph import Value
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Less, Not, Where
from afterglow.ops.linear import MatMul
from afterglow.ops.reduction import ReduceMax
from afterglow.ops.softmax import Softmax
from afterglow.types.dtype import f32

WIDTH, CLASSES, LAYERS = 512, 10, 8


def build(random: np.random.Generator, *, predicated: bool) -> ag.Module:
    """A classifier with an early exit: `sure` says whether its first guess is good enough."""
    function = ag.Function("main")
    b = ag.Builder(function)
    x = function.input("x", ag.TensorType(f32, (1, WIDTH)))

    def weight(rows: int, columns: int) -> Value:
        scale = np.sqrt(2 / rows)
        return b.constant((random.standard_normal((rows, columns)) * scale).astype(np.float32))

    guess = b.emit(Softmax(axis=1), b.emit(MatMul(), x, weight(WIDTH, CLASSES)), name="guess")
    best = b.emit(ReduceMax((0, 1), keepdims=False), guess)
    sure = b.emit(Less(), b.constant(np.array(0.9, np.float32)), best, name="sure")

    def second_half() -> Value:
        h = x
        for _ in range(LAYERS):
            h = b.emit(Relu(), b.emit(MatMul(), h, weight(WIDTH, WIDTH)))
        return b.emit(Softmax(axis=1), b.emit(MatMul(), h, weight(WIDTH, CLASSES)), name="second")

    # Nodes emitted inside `when` are needed only if the predicate is true. That is a hint: if it is
    # false their results are undefined, and `where` selects the others.
    if predicated:
        with b.when(b.emit(Not(), sure, name="unsure")):
            second = second_half()
    else:
        second = second_half()
    function.output("probabilities", b.emit(Where(), sure, guess, second, name="probabilities"))
    return function.module


def fastest(model: ag.CompiledModel, x: np.ndarray, runs: int = 200) -> float:
    """The time of the fastest run, in microseconds."""
    times = []
    for _ in range(runs):
        started = perf_counter()
        model(x)
        times.append(perf_counter() - started)
    return min(times) * 1e6


def main() -> None:
    module = build(np.random.default_rng(0), predicated=True)
    print("\n".join(line for line in ag.print_module(module).splitlines() if " if %" in line)[:200])
    skips = ag.compile(module)
    never = ag.compile(build(np.random.default_rng(0), predicated=False))

    x = np.random.default_rng(1).standard_normal((1, WIDTH)).astype(np.float32)
    for title, scale in (("sure", 10.0), ("unsure", 0.1)):
        given = x * np.float32(scale)
        same = np.array_equal(skips(given), never(given))
        print(f"{title}: equal results: {same}")
        print(f"{title}: {fastest(skips, given):.0f} µs with predicates, ", end="")
        print(f"{fastest(never, given):.0f} µs without")


if __name__ == "__main__":
    main()
