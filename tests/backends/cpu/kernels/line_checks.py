"""What the tests of kernels that work line by line have in common."""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import can_write
from afterglow.graph import Op
from afterglow.ops.elementwise import Add, Mul
from afterglow.testing.cases.case import Case
from afterglow.types import Array, DType
from tests.backends.cpu.kernels.harness import Bench, best_kernel

TARGETS = ("host", "x86-64-v3")
ELSEWHERE = ("aarch64", "cortex-m4", "riscv64", "wasm32")


DTYPES = {
    str(dtype): dtype for dtype in map(DType.of, ("f8", "f4", "f2", "i1", "u1", "u2", "i4", "i8"))
}


def random(*shape: int, dtype: str = "f32", seed: int = 0) -> Array:
    """Numbers of a type, the same each time."""
    rng = np.random.default_rng([seed, *shape])
    kind = DTYPES[dtype]
    if kind.is_float:
        return (rng.standard_normal(shape) * 3).astype(kind.numpy)
    return rng.integers(-90 if kind.is_signed else 0, 90, shape).astype(kind.numpy)


def tolerance(dtype: str) -> float:
    """How far results may be off, in relation to their size."""
    return 2e-3 if dtype == "f16" else 1e-5


def check_case(case: Case, target: str) -> None:
    """A case of the op gives what `evaluate` gives, unless it is none for a kernel."""
    bench = Bench(Target.of(target))
    operands = [None if array is None else bench.input(array) for array in case.inputs()]
    bench.steps_of(case.op, *operands)
    job = bench.job()
    if job.is_empty or job.anchor is None:
        return
    assert can_write(job)
    narrow = any(type is not None and type.dtype.is_narrow_float for type in case.types)
    bench.check(rtol=5e-3 if narrow else max(1e-5, case.tolerance))


def check_op(op: Op, *arrays: Array, target: str = "host", gaps: bool = False) -> None:
    """The result is right, and the same bits however the units are cut."""
    limit = tolerance(str(DType.of(arrays[0].dtype)))
    results = []
    for pieces in (1, 3):
        bench = Bench(Target.of(target))
        operands = [bench.input(array, gaps=gaps) for array in arrays]
        outs = bench.steps_of(op, *operands, gaps=gaps)
        bench.check(pieces, rtol=limit, atol=limit)
        results.append([bench.memory[out].tobytes() for out in outs])
    assert results[0] == results[1]


def check_fused(op: Op, *arrays: Array, prologue: bool = True) -> None:
    """The op between element-wise steps: on (x + vector), then times a vector, plus a tensor."""
    bench = Bench()
    x, *others = (bench.input(array, gaps=True) for array in arrays)
    if prologue:
        x = bench.step(Add(), x, bench.input(random(x.type.shape[-1], seed=1)))
    y = bench.step(op, x, *others)
    shape = y.type.shape
    z = bench.step(Mul(), y, bench.input(random(shape[-1], seed=2)))
    bench.step(Add(), z, bench.input(random(*shape, seed=3), gaps=True), stored=True, gaps=True)
    bench.check(3, rtol=1e-5, atol=1e-5)


def check_compiles(op: Op, *arrays: Array) -> None:
    """There is code for machines that are not this one."""
    for name in ELSEWHERE:
        bench = Bench(Target.of(name))
        bench.steps_of(op, *map(bench.input, arrays))
        assert compile_module(best_kernel(bench.job(), bench.target).module, bench.target)
