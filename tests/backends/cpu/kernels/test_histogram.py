"""Histograms and ranges of channels: in parts, by threads, of any strides and ranged extents."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.driver.api import compile
from afterglow.graph import Builder, Function, Module, Op
from afterglow.ops.histogram import ChannelRanges, Histogram
from afterglow.ops.movement import Slice
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged

REACH = np.array(2, np.float32)


def module_of(op: Op, *shape: int, strided: bool = False) -> Module:
    """The op alone; of a slice of x, if strides are to be others."""
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, shape))
    if strided:
        half = tuple(n // 2 for n in shape)
        x = b.emit(Slice((0,) * len(shape), half, (2,) * len(shape)), x)
    reach = [b.constant(REACH)] if isinstance(op, Histogram) else []
    for number, value in enumerate(b.emit_all(op, x, *reach)):
        f.output(f"y{number}", value)
    return f.module


def numbers(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("every", [1, 3])
def test_many_elements_are_counted_in_parts(threads: int, every: int) -> None:
    x = numbers(90, 9, 60)
    model = compile(module_of(Histogram(64, every), 90, 9, 60), threads=threads)
    assert (model(x) == Histogram(64, every).evaluate(x, REACH)).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_many_rows_are_walked_in_blocks(threads: int) -> None:
    x = numbers(90, 9, 60)
    x[3, 4, 5], x[7, 8, 9], x[7, 8, 10] = np.nan, np.inf, -np.inf
    found = compile(module_of(ChannelRanges(), 90, 9, 60), threads=threads)(x)
    for part, wanted in zip(found, ChannelRanges().evaluate(x), strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", [Histogram(16), ChannelRanges()], ids=str)
def test_operands_may_have_other_strides(op: Op) -> None:
    x = numbers(20, 8, 42)
    found = compile(module_of(op, 20, 8, 42, strided=True), threads=1)(x)
    operands = (x[::2, ::2, ::2], REACH)[: op.required]
    wanted = op.evaluate(*operands)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for part, exact in pairs:
        np.testing.assert_allclose(part, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", [Histogram(16), Histogram(16, 3), ChannelRanges()], ids=str)
def test_extents_may_be_ranged(op: Op) -> None:
    rows, columns = ranged(Dim("r", 1, 900)), ranged(Dim("c", 1, 40))
    module = module_of(op, rows, 2, columns)
    extents = [(1, 1), (1, 40), (2, 7), (5, 16), (900, 17), (431, 33)]
    check_ranged(module, [{"r": r, "c": c} for r, c in extents])
