"""Products made by hand, in tiles that a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from afterglow.backends.cuda.kernels.conv_layout import ConvLayout
from afterglow.backends.cuda.kernels.families import ANCHORS
from afterglow.backends.cuda.kernels.matrices import Layout
from afterglow.backends.cuda.kernels.tile import Tile
from afterglow.graph import Op
from afterglow.instr import Buffer, KernelPlan, OpInstr
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.quantized import QuantizedMatMul
from afterglow.types import Array
from tests.backends.cuda.kernels.jobs import Made

__all__ = ["ANCHORS"]
RANDOM = np.random.default_rng(7)


def floats(dtype: str | type, *shape: int) -> Array:
    """Numbers around zero."""
    return (RANDOM.standard_normal(shape) * 0.5).astype(dtype)


def integers(dtype: str, *shape: int) -> Array:
    """All numbers that a type has."""
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def product(
    op: Op,
    x: Array,
    weight: Array,
    *others: Array | None,
    constant: bool = True,
    behind: bool = True,
    order: Sequence[int] | None = None,
) -> Made:
    """A product or convolution; a residual is added behind it, and what is negative left out."""
    made = Made()
    given = made.given(x, order=order)
    factors = made.constant(weight) if constant else made.given(weight)
    rest: list[Buffer | None] = [None if each is None else made.constant(each) for each in others]
    result = made.add(op, given, factors, *rest, anchor=True)
    if behind:
        residual = made.given(floats(result.type.dtype.numpy, *result.type.shape))
        made.add(Relu(), made.add(Add(), result, residual))
    return made


def in_tiles(
    made: Made, rows: int, columns: int, terms: int, splits: int = 1
) -> Callable[[KernelPlan], KernelPlan]:
    """Changes a plan to one of such tiles."""
    assert made.anchor is not None
    layout = layout_of(made.anchor)
    if isinstance(layout, ConvLayout) and layout.line:
        terms = layout.line
    tile = Tile(rows, columns, terms, 4, 3, splits)
    return lambda plan: tile.plan(layout.extents, plan.cost)


def layout_of(step: OpInstr) -> Layout | ConvLayout:
    """How the operands of a step lie in memory."""
    is_matmul = isinstance(step.op, (MatMul, QuantizedMatMul))
    return Layout(step) if is_matmul else ConvLayout(step)
