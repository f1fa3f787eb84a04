"""Convolutions that see little but padding become sums over what they see."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.graph import Builder, Function, verify_module
from afterglow.ops.convolution import Conv, Convolution, ConvTranspose
from afterglow.transforms.sparse_windows import SPLIT_SPARSE_WINDOWS
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.transforms.rewriting import assert_same_meaning, check_declines, check_rewrites, program

VAST = 2**20


def test_a_convolution_that_sees_padding_alone_is_its_bias() -> None:
    far = "strides = (8388608), pads = (4194304, 4194303), dilations = (1), groups = 1"
    check_rewrites(
        SPLIT_SPARSE_WINDOWS,
        before=program(
            "%x: f32[1, 1, 1], %b: f32[3]",
            "const @w : f32[3, 1, 1] = fill 0.5",
            f"%r = conv(%x, @w, %b) {{{far}}} : f32[1, 1, 3]",
        ),
        after=program(
            "%x: f32[1, 1, 1], %b: f32[3]",
            "%r_1 = fill() {shape = (1, 1, 3), value = 0.0, dtype = f32} : f32[1, 1, 3]",
            "%r = add(%r_1, %b) : f32[1, 1, 3]",
        ),
    )


def test_ordinary_padding_stays() -> None:
    check_declines(
        SPLIT_SPARSE_WINDOWS,
        program(
            "%x: f32[1, 9, 2]",
            "const @w : f32[3, 3, 2] = fill 0.5",
            "%r = conv(%x, @w) {strides = (1), pads = (1, 1), dilations = (1), groups = 1} : "
            "f32[1, 9, 3]",
        ),
    )


OPS: list[tuple[Convolution, tuple[int, ...], tuple[int, ...]]] = [
    (Conv((VAST, 1), (VAST, 1, VAST, 0), (1, 1)), (2, 4, 5, 4), (6, 2, 3, 4)),
    (Conv((VAST, 3), (2 * VAST, 1, 2 * VAST, 2), (VAST, 1), 2), (2, 4, 5, 4), (6, 3, 3, 2)),
    (ConvTranspose((VAST, 2), (VAST - 1, 1, VAST, 0), (1, 1)), (2, 3, 4, 4), (4, 2, 3, 6)),
    (ConvTranspose((1, 2), (VAST, 0, VAST, 0), (VAST, 1), 2, (1, 1)), (2, 3, 4, 4), (4, 3, 3, 3)),
]


@pytest.mark.parametrize(("op", "x", "weight"), OPS)
def test_what_is_seen_is_summed_up(
    op: Convolution, x: tuple[int, ...], weight: tuple[int, ...]
) -> None:
    f = Function("main")
    b = Builder(f)
    operands = [f.input("x", TensorType(f32, x)), f.input("w", TensorType(f32, weight))]
    result = b.emit(op, *operands)
    f.output("y", b.emit(op, *operands, f.input("b", TensorType(f32, result.type.shape[-1:]))))
    reference = f.module.clone()
    assert SPLIT_SPARSE_WINDOWS.run(f)
    verify_module(f.module)
    assert_same_meaning(reference.main, f)
    inputs = [np.ones(i.type.shape, np.float32) for i in f.inputs]
    want = afterglow.compile(reference, cache=False, backend="interpreter")(*inputs)
    np.testing.assert_allclose(afterglow.compile(reference, cache=False)(*inputs), want, rtol=1e-5)
