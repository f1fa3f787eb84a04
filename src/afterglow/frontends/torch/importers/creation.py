"""Ops of PyTorch that make tensors from numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import counts, expanded, integer_constant
from afterglow.frontends.common.ranges import ramp, range_count
from afterglow.frontends.torch.importers.elementwise import name_of
from afterglow.frontends.torch.importers.operands import number, operand
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.indexing import Iota
from afterglow.ops.power import Pow
from afterglow.support.errors import ModelError
from afterglow.types import DType
from afterglow.types.dtype import f32, f64, i64
from afterglow.types.extent import is_ranged

_NUMBERS = {"zeros": 0, "ones": 1, "empty": 0}


def filled(n: TorchNode, value: Value, shape: tuple[int, ...]) -> Value:
    """One number everywhere."""
    if any(not is_ranged(extent) and extent < 0 for extent in shape):
        raise ModelError(f"a shape has no negative extents, got {shape}")
    return expanded(n, value, shape)


@aten("full", "new_full")
def full(n: TorchNode) -> Value:
    """One number everywhere."""
    return filled(n, operand(n, "fill_value", n.result_type()), n.sizes("size"))


@aten("full_like")
def full_like(n: TorchNode) -> Value:
    """In the shape of another tensor."""
    shape = n.value("self").type.shape
    return filled(n, operand(n, "fill_value", n.result_type()), shape)


@aten("zeros", "ones", "empty.memory_format", "empty_strided", "empty_permuted")
def constant_of_size(n: TorchNode) -> Value:
    """Zeros or ones; what is not initialized is zero."""
    return filled(n, number(n, _NUMBERS.get(name_of(n), 0), n.result_type()), n.sizes("size"))


@aten("new_zeros", "new_ones", "new_empty", "new_empty_strided")
def new_constant(n: TorchNode) -> Value:
    """The same, of the type of another tensor."""
    value = _NUMBERS.get(name_of(n).removeprefix("new_"), 0)
    return filled(n, number(n, value, n.result_type()), n.sizes("size"))


@aten("zeros_like", "ones_like", "empty_like")
def constant_like(n: TorchNode) -> Value:
    """The same, in the shape of another tensor."""
    value = _NUMBERS[name_of(n).removesuffix("_like")]
    return filled(n, number(n, value, n.result_type()), n.value("self").type.shape)


@aten("fill.Scalar", "fill.Tensor")
def fill(n: TorchNode) -> Value:
    """A tensor's shape with another number."""
    return filled(n, operand(n, "value", n.result_type()), n.value("self").type.shape)


@aten("zero")
def zero(n: TorchNode) -> Value:
    """A tensor's shape with zeros."""
    return filled(n, number(n, 0, n.result_type()), n.value("self").type.shape)


@aten("scalar_tensor")
def scalar_tensor(n: TorchNode) -> Value:
    """A number."""
    return operand(n, "s", n.result_type())


@aten("arange.start_step", "arange.start", "arange")
def arange(n: TorchNode) -> Value:
    """start + i step, computed in double precision and rounded once; integers exactly."""
    start = _bound(n, "start") if n.argument("start") is not None else 0
    end = _bound(n, "end")
    step = n.scalar("step") if n.argument("step") is not None else 1
    if step == 0:
        raise ModelError("a range has no step of 0")
    return ramp(n, start, step, range_count(start, end, step), n.result_type())


@aten("iota", namespace="prims")
def prims_iota(n: TorchNode) -> Value:
    """So many numbers."""
    return ramp(n, n.size("start"), n.scalar("step"), n.size("length"), n.result_type())


def _bound(n: TorchNode, name: str) -> Any:
    """A number that may be a ranged extent."""
    given = n.argument(name)
    return n.size(name) if isinstance(given, Value) and given.type.dtype is i64 else n.scalar(name)


@aten("linspace", "linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def linspace(n: TorchNode) -> Value:
    """Numbers at equal distances, from both ends towards the middle."""
    dtype = n.result_type()
    return as_dtype(n, _between(n, f64 if dtype is f64 or not dtype.is_float else f32), dtype)


@aten("logspace", "logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor")
def logspace(n: TorchNode) -> Value:
    """Powers of a base with exponents at equal distances."""
    exponents = _between(n, f64)
    powers = n.emit(Pow(), number(n, float(n.scalar("base")), f64), exponents)
    return as_dtype(n, powers, n.result_type())


def _between(n: TorchNode, dtype: DType) -> Value:
    steps = n.size("steps")
    start, end = operand(n, "start", dtype), operand(n, "end", dtype)
    if steps <= 1:
        return filled(n, start, (steps,))
    last = number(n, steps - 1, dtype)
    step = n.emit(e.Div(), n.emit(e.Sub(), end, start), last)
    count = n.emit(Iota((steps,), 0, dtype))
    rising = n.emit(e.Add(), start, n.emit(e.Mul(), step, count))
    left = n.emit(e.Sub(), last, count)
    falling = n.emit(e.Sub(), end, n.emit(e.Mul(), step, left))
    half = number(n, steps // 2, dtype)
    return n.emit(e.Where(), n.emit(e.Less(), count, half), rising, falling)


@aten("eye", "eye.m")
def eye(n: TorchNode) -> Value:
    """Ones on the diagonal."""
    rows = n.size("n")
    shape = (rows, n.size("m") if n.argument("m") is not None else rows)
    return as_dtype(n, n.emit(e.Equal(), counts(n, shape, 0), counts(n, shape, 1)), n.result_type())


@aten("tril", "triu")
def triangle(n: TorchNode) -> Value:
    """A triangle of each matrix, with zeros elsewhere."""
    x = n.value("self")
    shape = x.type.shape[-2:]
    row, column = counts(n, shape, 0), counts(n, shape, 1)
    diagonal = n.emit(e.Add(), row, integer_constant(n, n.size("diagonal")))
    order = (diagonal, column) if name_of(n) == "triu" else (column, diagonal)
    kept = n.emit(e.LessEqual(), *order)
    return n.emit(e.Where(), kept, x, number(n, 0, x.type.dtype))


@aten("tril_indices", "triu_indices")
def triangle_indices(n: TorchNode) -> Value:
    """Where the elements of a triangle are."""
    rows, columns, offset = n.size("row"), n.size("col"), n.scalar("offset")
    make = np.tril_indices if name_of(n) == "tril_indices" else np.triu_indices
    return n.constant(np.array(make(rows, offset, columns), n.result_type().numpy))
