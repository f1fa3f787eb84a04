"""Products and convolutions at the edges of their tiles, in one program: compiling takes long."""

from __future__ import annotations

import pytest

import afterglow as ag
from afterglow.backends.opencl.backend import OpenCl
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.testing.arrays import assert_close
from afterglow.types.dtype import f16
from tests.backends.opencl.programs import GrownProgram, declare

pytestmark = pytest.mark.usefixtures("opencl_device")


@pytest.fixture(scope="module")
def program():
    p = GrownProgram()
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


def test_products_of_floats_of_16_bits_read_and_write_these_and_add_in_f32(
    opencl_device, monkeypatch
):
    monkeypatch.setattr(OpenCl, "preparation", ())
    p = GrownProgram()
    p.add(MatMul(), p.given((2, 13, 5), f16), p.constant((5, 21), f16), then_add=True)
    p.add(
        Conv(strides=(1,), pads=(0, 1), dilations=(1,)),
        *(p.given((1, 7, 3), f16), p.constant((3, 3, 3), f16), p.constant((3,), f16)),
    )
    p.add(
        Conv(strides=(1,), pads=(1, 1), dilations=(1,), groups=8),
        *(p.given((1, 5, 8), f16), p.constant((8, 3, 1), f16), p.constant((8,), f16)),
    )
    own = "vload_half" if opencl_device.inlines else "from_f16"
    assert own in _check(p)


def test_groups_of_many_small_units_share_numbers(monkeypatch):
    declare(monkeypatch, kind="gpu", lanes=1, work_group=16)
    p = GrownProgram()
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
