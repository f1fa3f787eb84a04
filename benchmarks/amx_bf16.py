"""Products of bf16 on this machine against NumPy, over many shapes; then how fast models are.

Each case is a small model in float32 that is compiled with precision="bfloat16" and compared with
what NumPy computes in float64 of operands rounded to bf16. A result may differ by one rounding to
bf16 and by what other orders of additions make. Results must not depend on the number of threads.
Every case is run, and printed with the algorithm that was chosen; the exit status says whether all
are right. On a machine with AMX, cases are also compiled without its tiles.

    python -m benchmarks.amx_bf16                 checks, then times of ResNet-50 and BERT
    python -m benchmarks.amx_bf16 --no-times      checks alone
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import afterglow as ag
from afterglow.backends.cpu import Target
from afterglow.graph import Op
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.types import Array
from afterglow.types.dtype import f32

TOLERANCE = 2.0**-8
"""The largest error, by the largest magnitude of the result: half of it is rounding to bf16."""
DEPTHS = (1, 2, 3, 31, 32, 33, 63, 64, 66, 96, 127, 384, 767, 768, 3072)
"""Depths of products: odd, not multiples of 32, and what networks have."""
ROWS = (8, 15, 16, 17, 31, 33, 49, 128, 197)
COLUMNS = (1, 15, 16, 17, 33, 48, 64, 100, 384)


@dataclass(frozen=True)
class Case:
    """A product: its op, the shapes of its operands, and whether the second one is a weight."""

    op: Op
    x: tuple[int, ...]
    weight: tuple[int, ...]
    constant: bool = True
    bias: bool = False

    def __str__(self) -> str:
        kind = self.op.mnemonic + ("" if self.constant else ", not constant")
        return f"{kind} {self.x} x {self.weight}{' + bias, relu' if self.bias else ''}"


def cases() -> Iterator[Case]:
    """All cases: matrices of every edge, batches, convolutions."""
    for depth in DEPTHS:
        yield Case(MatMul(), (33, depth), (depth, 48))
    for rows in ROWS:
        yield Case(MatMul(), (rows, 96), (96, 64))
        yield Case(MatMul(), (rows, 65), (65, 33))
    for columns in COLUMNS:
        yield Case(MatMul(), (40, 128), (128, columns))
    yield Case(MatMul(), (128, 768), (768, 3072))
    yield Case(MatMul(transpose_rhs=True), (40, 128), (72, 128))
    for depth in (32, 33, 64):
        yield Case(MatMul(), (6, 48, depth), (6, depth, 48), constant=False)
    yield from convolutions()


def convolutions() -> Iterator[Case]:
    """Windows, strides, pads, dilations, groups, and channels of every kind."""
    same, none = (1,) * 4, (0,) * 4
    for channels in (3, 5, 16, 32, 33, 64):
        yield Case(Conv((1, 1), same, (1, 1)), (1, 13, 15, channels), (40, 3, 3, channels))
        yield Case(Conv((1, 1), none, (1, 1)), (1, 14, 14, channels), (64, 1, 1, channels), True)
    yield Case(Conv((2, 2), (3,) * 4, (1, 1)), (1, 56, 56, 3), (64, 7, 7, 3), bias=True)
    yield Case(Conv((2, 2), same, (1, 1)), (2, 28, 28, 64), (96, 3, 3, 64), bias=True)
    yield Case(Conv((1, 1), (2,) * 4, (2, 2)), (1, 13, 35, 36), (33, 3, 3, 36))
    yield Case(Conv((1, 1), same, (1, 1), 2), (1, 17, 19, 64), (96, 3, 3, 32))
    yield Case(Conv((2, 2), none, (1, 1)), (1, 56, 56, 256), (128, 1, 1, 256), bias=True)
    yield Case(Conv((1, 1), none, (1, 1)), (1, 7, 7, 2048), (512, 1, 1, 2048), bias=True)


def module_of(case: Case, weight: Array, bias: Array) -> ag.Module:
    """The case as a model of float32."""
    function = ag.Function("main")
    b = ag.Builder(function)
    x = function.input("x", ag.TensorType(f32, case.x))
    if case.constant:
        factor = b.constant(weight, "weight")
    else:
        factor = function.input("weight", ag.TensorType(f32, case.weight))
    made = b.emit(case.op, x, factor, *([b.constant(bias, "bias")] if case.bias else []))
    function.output("y", b.emit(Relu(), made) if case.bias else made)
    return function.module


def rounded(x: Array) -> Array:
    """The nearest bf16, as float64."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def check(case: Case, target: str) -> tuple[str, str]:
    """The algorithms of a case, and what is wrong with its result; nothing if it is right."""
    rng = np.random.default_rng(0)
    x, weight, bias = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in (case.x, case.weight, case.weight[:1])
    )
    operands = [rounded(x), rounded(weight), *([rounded(bias)] if case.bias else [])]
    want = case.op.evaluate(*operands)
    want = np.maximum(want, 0) if case.bias else want
    given = {"x": x} if case.constant else {"x": x, "weight": weight}
    module = module_of(case, weight, bias)
    results, plans = [], ""
    for threads in (1, 2):
        model = ag.compile(
            module, precision="bfloat16", target=target, threads=threads, cache=False
        )
        (result,) = model.run(None, given)
        results.append(result)
        plans = ", ".join(sorted(_plans(model.ir("instructions"))))
    error = np.abs(results[0].astype(np.float64) - want).max() / np.abs(want).max()
    if not error <= TOLERANCE:
        return plans, f"off by {error:.2g} of the largest result"
    same = np.array_equal(results[0], results[1])
    return plans, "" if same else "differs between 1 and 2 threads"


def _plans(program: str) -> set[str]:
    """The algorithms that a printed program has."""
    words = (
        line.split(" plan ", 1)[1].split()[0] for line in program.splitlines() if " plan " in line
    )
    return {word for word in words if word not in ("element-wise",)}


def check_all(targets: list[str]) -> int:
    """Check every case, print a line for each, and return how many are wrong."""
    wrong = 0
    for target in targets:
        for case in cases():
            try:
                plans, problem = check(case, target)
            except Exception as error:  # each case is to be seen, whatever happens to one
                plans, problem = "", f"{type(error).__name__}: {error}"
                traceback.print_exc(limit=-3)
            wrong += bool(problem)
            print(
                f"{'WRONG' if problem else 'ok   '} {target}: {case}: {plans} {problem}", flush=True
            )
    return wrong


def main() -> None:
    """Check, then time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-times", action="store_true", help="check alone")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of the times")
    given = parser.parse_args()
    host = Target.host()
    print(f"{host}: dot products of bf16 {host.dot_bf16}, tiles of bf16 {host.bf16_tiles}")
    targets = ["host", "host-without-tiles"] if host.bf16_tiles else ["host"]
    wrong = check_all(targets)
    count = len(targets) * len(list(cases()))
    print(f"{count - wrong} of {count} right, tolerance {TOLERANCE:g} of the largest result")
    if not given.no_times:
        threads = map(str, given.threads)
        words = [sys.executable, "-m", "benchmarks.bf16_speed", "--threads", *threads]
        subprocess.run(words, check=False)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
