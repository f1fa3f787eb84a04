"""Products and convolutions of bytes: in tiles of floats, and in words of four bytes."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import run_function
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.types.dtype import i8, i32, u8
from tests.backends.opencl.programs import GrownProgram, declare

pytestmark = pytest.mark.usefixtures("opencl_device")


def _check(program):
    wanted = run_function(program.function, [*program.inputs.values()])
    model = ag.compile(program.function.module, backend="opencl", cache=False)
    for found, right in zip(model.run(None, program.inputs), wanted, strict=True):
        np.testing.assert_array_equal(found, right)
    return model.ir("opencl")


def test_on_processors_sums_in_floats_are_exact(monkeypatch):
    declare(monkeypatch, kind="cpu")
    p = GrownProgram()
    p.add(QuantizedMatMul(rhs_zero_point=3), p.given((3, 600), i8), p.constant((1, 600, 3), i8))
    p.add(
        QuantizedConv((1, 1), (1, 0, 0, 1), (1, 1), 2, 9, 200),
        *(p.given((1, 2, 2, 6), u8), p.constant((4, 2, 2, 3), u8)),
    )
    assert "dot_" not in _check(p)


def test_on_other_devices_words_of_four_bytes_are_multiplied(monkeypatch):
    declare(monkeypatch, kind="gpu", lanes=1, work_group=16)
    p = GrownProgram()
    p.add(
        QuantizedMatMul(False, True, 7, 131),
        *(p.given((2, 5, 70), u8), p.constant((20, 70), u8), p.constant((20,))),
        p.constant((20,), i32),
    )
    p.add(QuantizedMatMul(), p.given((3, 63), i8), p.constant((1, 63, 33), u8))
    p.add(
        QuantizedConv((1, 2), (1, 1, 1, 1), (1, 1), 2, 9, 200),
        *(p.given((1, 4, 5, 16), u8), p.constant((6, 3, 3, 8), u8)),
    )
    p.add(
        QuantizedConv((1, 1), (1, 0, 1, 1), (2, 1), 1),
        *(p.given((2, 7, 5, 7), i8), p.constant((9, 3, 3, 7), i8), p.constant((9,))),
        *(p.constant((9,), i32), p.given((), i8)),
    )
    text = _check(p)
    assert text.count("int dot_us(") == text.count("int dot_ss(") == 1
    assert text.count("barrier") == 2 * 2
