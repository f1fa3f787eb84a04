"""Products and convolutions at the edges of their tiles, in one program: compiling takes long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.opencl import driver
from afterglow.graph import Builder, Function
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.testing.arrays import assert_close
from afterglow.types import TensorType
from afterglow.types.dtype import f32

pytestmark = pytest.mark.usefixtures("opencl_device")


class _Program:
    """A function with one output for each case, and arrays for its inputs."""

    def __init__(self):
        self.function = Function("main")
        self.builder = Builder(self.function)
        self.inputs = {}
        self.random = np.random.default_rng(0)

    def array(self, shape, dtype):
        return self.random.standard_normal(shape).astype(dtype.numpy)

    def given(self, shape, dtype=f32):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.array(shape, dtype)
        return self.function.input(name, TensorType(dtype, shape))

    def constant(self, shape, dtype=f32):
        return self.builder.constant(self.array(shape, dtype), "weight")

    def add(self, op, *operands, then_add=False):
        result = self.builder.emit(op, *operands)
        if then_add:
            result = self.builder.emit(Add(), result, self.given(result.type.shape))
            result = self.builder.emit(Relu(), result)
        self.function.output(f"y{len(self.function.outputs)}", result)


@pytest.fixture(scope="module")
def program():
    p = _Program()
    p.add(MatMul(), p.given((2, 13, 5)), p.constant((5, 21)), then_add=True)
    p.add(MatMul(True, True), p.given((2, 1, 5, 14)), p.given((1, 3, 19, 5)))
    p.add(MatMul(), p.given((1, 9)), p.given((9, 16)))
    p.add(
        Conv(strides=(2, 1), pads=(0, 1, 2, 0), dilations=(1, 2)),
        *(p.given((1, 6, 7, 3)), p.constant((19, 3, 3, 3)), p.constant((19,))),
        then_add=True,
    )
    p.add(
        Conv(strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), groups=2),
        *(p.given((2, 3, 5, 8)), p.constant((6, 1, 1, 4))),
    )
    p.add(
        Conv(strides=(1, 2), pads=(1, 1, 1, 1), dilations=(1, 1), groups=24),
        *(p.given((1, 5, 21, 24)), p.constant((24, 3, 3, 1)), p.constant((24,))),
        then_add=True,
    )
    return p


def _check(program):
    module = program.function.module
    wanted = ag.compile(module, backend="interpreter", cache=False).run(None, program.inputs)
    model = ag.compile(module, backend="opencl", cache=False)
    assert_close(model.run(None, program.inputs), wanted, 1e-5)
    return model.ir("opencl")


def test_the_edges_of_tiles_are_right(program, opencl_device):
    assert ("barrier" in _check(program)) == (not opencl_device.is_processor)


def test_groups_of_many_small_units_share_numbers(opencl_device, monkeypatch):
    many = replace(opencl_device, kind="gpu", lanes=1, work_group=16)
    (device, _), *_ = driver.devices()
    monkeypatch.setattr(driver, "devices", lambda: ((device, many),))
    p = _Program()
    p.add(MatMul(), p.given((2, 9, 17)), p.constant((17, 5)), then_add=True)
    p.add(MatMul(False, True), p.given((2, 1, 9, 5)), p.given((1, 3, 17, 5)))
    p.add(
        Conv(strides=(1, 2), pads=(1, 1, 1, 1), dilations=(1, 1), groups=2),
        *(p.given((1, 4, 5, 6)), p.constant((8, 3, 3, 3)), p.constant((8,))),
    )
    p.add(
        Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=3),
        *(p.given((1, 4, 9, 3)), p.constant((3, 3, 3, 1))),
    )
    assert _check(p).count("barrier") == 6
