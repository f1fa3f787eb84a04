"""Many cases of ops as one program, because drivers take long to compile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.opencl import driver
from afterglow.graph import Builder, Function, Op, Value
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.testing.arrays import assert_close
from afterglow.testing.case_functions import owned
from afterglow.testing.cases import Case
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import f32

LEAST_TOLERANCE = 1e-5


def check_cases(cases: Iterable[Case]) -> None:
    """Compile cases as one function for the first OpenCL device, and compare all results."""
    f = Function("main")
    inputs, wanted, tolerances = [], [], []
    for number, case in enumerate(cases):
        operands = [
            None if type is None else f.input(f"x{number}_{i}", type)
            for i, type in enumerate(case.types)
        ]
        for result in Builder(f).emit_all(owned(case.op, f), *operands):
            f.output(f"y{len(tolerances)}", result)
            tolerances.append(max(case.tolerance, LEAST_TOLERANCE))
        inputs += [array for array in case.inputs() if array is not None]
        wanted += case.wanted()
    feed = {placeholder.name: x for placeholder, x in zip(f.inputs, inputs, strict=True)}
    results = ag.compile(f.module, backend="opencl", cache=False).run(None, feed)
    for got, right, tolerance in zip(results, wanted, tolerances, strict=True):
        assert_close([np.asarray(got)], [right], tolerance)


def declare(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> None:
    """Have the first OpenCL device say other things of itself."""
    (device, limits), *_ = driver.devices()
    monkeypatch.setattr(driver, "devices", lambda: ((device, replace(limits, **facts)),))


class GrownProgram:
    """A function with one output for each case, and arrays for its inputs."""

    def __init__(self) -> None:
        self.function = Function("main")
        self.builder = Builder(self.function)
        self.inputs: dict[str, Array] = {}
        self.random = np.random.default_rng(0)

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Floats around 0, or integers of all values."""
        if dtype.is_float:
            return self.random.standard_normal(shape).astype(dtype.numpy)
        least, most = map(int, dtype.limits)
        return self.random.integers(least, most, shape, dtype.numpy, endpoint=True)

    def given(self, shape: tuple[int, ...], dtype: DType = f32) -> Value:
        """An input."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(self.array(shape, dtype))
        return self.function.input(name, TensorType(dtype, shape))

    def constant(self, shape: tuple[int, ...], dtype: DType = f32) -> Value:
        """A weight."""
        return self.builder.constant(np.asarray(self.array(shape, dtype)), "weight")

    def add(self, op: Op, *operands: Value, then_add: bool = False) -> None:
        """A case; its result goes through further steps if these are asked for."""
        result = self.builder.emit(op, *operands)
        if then_add:
            result = self.builder.emit(
                Add(), result, self.given(result.type.shape, result.type.dtype)
            )
            result = self.builder.emit(Relu(), result)
        self.function.output(f"y{len(self.function.outputs)}", result)
