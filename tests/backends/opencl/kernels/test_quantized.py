"""Products and convolutions of bytes: in tiles of floats, and in words of four bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.opencl import driver
from afterglow.graph import Builder, Function, run_function
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.types import TensorType
from afterglow.types.dtype import f32, i8, i32, u8

pytestmark = pytest.mark.usefixtures("opencl_device")


class _Program:
    """A function with one output for each case, as compiling takes long; bytes of all values."""

    def __init__(self):
        self.function = Function("main")
        self.builder = Builder(self.function)
        self.inputs = {}
        self.random = np.random.default_rng(0)

    def array(self, dtype, *shape):
        least, most = map(int, dtype.limits)
        return self.random.integers(least, most + 1, shape).astype(dtype.numpy)

    def given(self, dtype, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.array(dtype, *shape)
        return self.function.input(name, TensorType(dtype, shape))

    def weight(self, dtype, *shape):
        return self.builder.constant(self.array(dtype, *shape), "weight")

    def scaled_by(self, columns):
        scale = self.random.random(columns).astype(f32.numpy)
        bias = self.random.integers(-5000, 5000, columns).astype(i32.numpy)
        return self.builder.constant(scale, "scale"), self.builder.constant(bias, "bias")

    def add(self, op, *operands):
        result = self.builder.emit(op, *operands)
        self.function.output(f"y{len(self.function.outputs)}", result)


def _check(program):
    wanted = run_function(program.function, [*program.inputs.values()])
    model = ag.compile(program.function.module, backend="opencl", cache=False)
    for found, right in zip(model.run(None, program.inputs), wanted, strict=True):
        np.testing.assert_array_equal(found, right)
    return model.ir("opencl")


def test_on_processors_sums_in_floats_are_exact():
    p = _Program()
    p.add(QuantizedMatMul(rhs_zero_point=3), p.given(i8, 3, 600), p.weight(i8, 1, 600, 3))
    p.add(
        QuantizedConv((1, 1), (1, 0, 0, 1), (1, 1), 2, 9, 200),
        *(p.given(u8, 1, 2, 2, 6), p.weight(u8, 4, 2, 2, 3)),
    )
    assert "dot_" not in _check(p)


def test_on_other_devices_words_of_four_bytes_are_multiplied(opencl_device, monkeypatch):
    many = replace(opencl_device, kind="gpu", lanes=1, work_group=16)
    (device, _), *_ = driver.devices()
    monkeypatch.setattr(driver, "devices", lambda: ((device, many),))
    p = _Program()
    p.add(
        QuantizedMatMul(False, True, 7, 131),
        *(p.given(u8, 2, 5, 70), p.weight(u8, 20, 70), *p.scaled_by(20)),
    )
    p.add(QuantizedMatMul(), p.given(i8, 3, 63), p.weight(u8, 1, 63, 33))
    p.add(
        QuantizedConv((1, 2), (1, 1, 1, 1), (1, 1), 2, 9, 200),
        *(p.given(u8, 1, 4, 5, 16), p.weight(u8, 6, 3, 3, 8)),
    )
    p.add(
        QuantizedConv((1, 1), (1, 0, 1, 1), (2, 1), 1),
        *(p.given(i8, 2, 7, 5, 7), p.weight(i8, 9, 3, 3, 7), *p.scaled_by(9), p.given(i8)),
    )
    text = _check(p)
    assert text.count("int dot_us(") == text.count("int dot_ss(") == 1
    assert text.count("barrier") == 2 * 2
