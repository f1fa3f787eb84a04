"""Combining the elements of a block along its last axis: sums, products, extremes."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cuda.tl import Value
from afterglow.backends.pointwise.vocabulary import convert, is_nan, maximum, minimum, select
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, f64, i32, i64


@dataclass(frozen=True)
class Fold:
    """How many numbers become one."""

    name: str
    start: Callable[[DType], float]
    """What nothing becomes."""
    combine: Callable[[Value, Value], Value]
    """One number of two, block by block."""
    within: Callable[[Value], Value]
    """A block without its last axis, or with extent 1 in its place if there are several axes."""


def fold_text(function: str, x: Value) -> Value:
    """A function of Triton's that folds the last axis of a block, in the type of the elements."""
    rank = len(x.shape)
    shape = (*x.shape[:-1], 1) if rank > 1 else ()
    keep = ", keep_dims=True" if rank > 1 else ""
    text = f"{function}({x.text}, {rank - 1}{keep})"
    if x.dtype.bits < 32:
        text += f".to({x.type})"
    return x.derive(text, shape=shape)


def _add_up(x: Value) -> Value:
    return fold_text("tl.sum", x)


def _multiply(x: Value) -> Value:
    """Halves of the block by each other, until one number is left."""
    shape, code = x.shape, x.code
    while shape[-1] > 1:
        shape = (*shape[:-1], shape[-1] // 2)
        even, odd = code.fresh("v"), code.fresh("v")
        code.perform(f"{even}, {odd} = tl.split(tl.reshape({x.text}, {(*shape, 2)}))")
        x = x.derive(f"{even} * {odd}", shape=shape)
    return x if len(shape) > 1 else fold_text("tl.sum", x)


def _largest(x: Value) -> Value:
    return _extreme("tl.max", x)


def _smallest(x: Value) -> Value:
    return _extreme("tl.min", x)


def _extreme(function: str, x: Value) -> Value:
    """The largest or smallest; of floats NaN if any is, which Triton's own functions leave out.

    Floats are compared as integers in the same order, in which NaN lies beyond all.
    """
    if not x.dtype.is_float:
        return fold_text(function, x)
    whole = i64 if x.dtype is f64 else i32
    low, high = whole.limits
    ranks = _flipped(x.derive(f"{x.text}.to({_spelled(whole)}, bitcast=True)", whole))
    ranks = select(is_nan(x), high if function == "tl.max" else low, ranks)
    found = _flipped(fold_text(function, ranks))
    return found.derive(f"{found.text}.to({x.type}, bitcast=True)", x.dtype)


def _flipped(bits: Value) -> Value:
    """The bits of floats as integers in the order of the floats, and back."""
    return select(bits < 0, bits ^ bits.dtype.limits[1], bits)


def _spelled(dtype: DType) -> str:
    return f"tl.int{dtype.bits}"


def _lowest(dtype: DType) -> float:
    return float("-inf") if dtype.is_float else dtype.limits[0]


def _highest(dtype: DType) -> float:
    return float("inf") if dtype.is_float else dtype.limits[1]


SUM = Fold("sum", lambda dtype: 0, lambda a, b: a + b, _add_up)
PRODUCT = Fold("product", lambda dtype: 1, lambda a, b: a * b, _multiply)
LARGEST = Fold("largest", _lowest, maximum, _largest)
SMALLEST = Fold("smallest", _highest, minimum, _smallest)


def peak_of(x: Value) -> Value:
    """The largest along the last axis, of floats of which none is NaN or whose NaNs show later."""
    return fold_text("tl.max", x)


def truth_of(x: Value) -> Value:
    """Booleans as integers, which can be folded."""
    return convert(x, i32)
