"""Compile expressions, many to a module, run them on arrays, and compare with `evaluate`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afterglow.backends.cpu import Module, Target, compile_module, load_host
from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value
from afterglow.backends.cpu.pointwise import compute
from afterglow.graph import Op, run_op
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DType, f32
from tests.backends.cpu.running import HOST

PADDING = 64
"""A multiple of every lane count; NumPy treats the last few elements of an array by other code."""


@dataclass(frozen=True)
class Job:
    """An op on arrays of one length (None: an operand left out), in vectors or one by one."""

    op: Op
    result: DType
    operands: tuple[Array | None, ...]
    vectors: bool = True
    scalars: tuple[int, ...] = ()
    """Operands of which only the first element counts, which stands beside vectors."""
    constants: tuple[int, ...] = ()
    """Such operands that are known while the code is written."""

    @property
    def size(self) -> int:
        """How many results there are."""
        return next(x.size for x in self.operands if x is not None)

    def __str__(self) -> str:
        dtypes = ", ".join("-" if x is None else str(x.dtype) for x in self.operands)
        way = "vectors" if self.vectors else "scalars"
        return f"{self.op} : ({dtypes}) -> {self.result}, {way}"


def run_jobs(jobs: Sequence[Job], target: Target = HOST) -> list[Array]:
    """The results of each job by compiled code."""
    module = Module(target)
    for place, job in enumerate(jobs):
        with module.function(f"job{place}") as e:
            write(e, job)
    library = load_host(compile_module(module, target), module.exports, target)
    results = []
    for place, job in enumerate(jobs):
        operands = [padded(x) for x in job.operands if x is not None]
        out = np.zeros(operands[0].size, job.result.numpy)
        arguments = [x.ctypes.data for x in (*operands, out)]
        kinds = [ctypes.c_void_p] * len(arguments)
        library.function(f"job{place}", *kinds, ctypes.c_int64)(*arguments, out.size)
        results.append(out[: job.size])
    return results


def write(e: Emitter, job: Job) -> None:
    """A loop over all elements: operands in order, the result, and how many there are."""
    lanes = e.lanes(f32) if job.vectors else 1
    sources = [
        None if x is None else e.pointer(f"x{place}", DType.of(x.dtype))
        for place, x in enumerate(job.operands)
    ]
    out, count = e.pointer("out", job.result), e.count("count")
    with e.loop(count, step=lanes) as i:
        values = [
            None if source is None else _operand(e, job, place, source, i, lanes)
            for place, source in enumerate(sources)
        ]
        out.store(compute(job.op, job.result, values), i)


def _operand(e: Emitter, job: Job, place: int, source: Pointer, i: Value, lanes: int) -> Value:
    x = job.operands[place]
    if x is not None and place in job.constants:
        return e.constant(source.dtype, x[0].item())
    return source.load() if place in job.scalars else source.load(i, lanes)


def evaluated(job: Job) -> Array:
    """What the op says itself."""
    operands = [None if x is None else padded(x) for x in job.operands]
    size = next(x.size for x in operands if x is not None)
    (result,) = run_op(job.op, operands, [TensorType(job.result, (size,))])
    return result[: job.size]


def padded(x: Array) -> Array:
    """The array with more of its first element at the end."""
    room = np.empty(-(-x.size // PADDING) * PADDING + PADDING, x.dtype)
    room[: x.size], room[x.size :] = x, x[:1]
    return room


def steps_apart(found: Array, wanted: Array, dtype: DType) -> Array:
    """How many floats of the type lie between two, plus one; 0 for two NaN, many for one."""
    nan = np.isnan(found.astype(np.float64)), np.isnan(wanted.astype(np.float64))
    distance = np.abs(_ordered(found, dtype) - _ordered(wanted, dtype))
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] | nan[1], 2.0**62, distance))


def _ordered(x: Array, dtype: DType) -> Array:
    """Codes of floats, as numbers in the order of what they stand for; both zeros are 0."""
    code = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    if dtype.name == "f8e8m0":
        return code.astype(np.float64)
    sign = np.uint64(1) << np.uint64(dtype.bits - 1)
    size = (code & (sign - np.uint64(1))).astype(np.int64)
    return np.where(code & sign, -size, size)
