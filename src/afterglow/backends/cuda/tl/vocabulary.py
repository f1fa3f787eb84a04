"""What expressions do to values, in Triton's language."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from afterglow.backends.cuda.tl.types import spell
from afterglow.backends.cuda.tl.value import Value, broadcast
from afterglow.backends.pointwise.value import unify
from afterglow.backends.pointwise.vocabulary import Vocabulary
from afterglow.types import Array
from afterglow.types.dtype import DType, boolean, f32, i64, u8


def select(condition: Value, then: Value | float, otherwise: Value | float) -> Value:
    """See `pointwise.vocabulary`."""
    if not isinstance(then, Value) and not isinstance(otherwise, Value):
        raise TypeError("one of what is chosen from must be a value")
    chosen, other = unify(then, otherwise)
    shape = broadcast(condition.shape, chosen.shape, other.shape)
    return chosen.derive(f"tl.where({condition.text}, {chosen.text}, {other.text})", shape=shape)


def _function(name: str, *operands: Value | float) -> Value:
    """A function of values of one type, which is also the result's."""
    values = unify(*operands)
    shape = broadcast(*(value.shape for value in values))
    return values[0].derive(f"{name}({', '.join(value.text for value in values)})", shape=shape)


def _larger(a: Value | float, b: Value | float) -> Value:
    x, y = unify(a, b)
    return select(x > y, x, y)


def _smaller(a: Value | float, b: Value | float) -> Value:
    x, y = unify(a, b)
    return select(x < y, x, y)


def _maximum(a: Value, b: Value) -> Value:
    return _extreme("maximum", _larger, a, b)


def _minimum(a: Value, b: Value) -> Value:
    return _extreme("minimum", _smaller, a, b)


def _extreme(name: str, choose: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    """The larger or smaller of two; NaN if either is one."""
    x, y = unify(a, b)
    if not x.dtype.is_float:
        return choose(x, y)
    shape = broadcast(x.shape, y.shape)
    text = f"tl.{name}({x.text}, {y.text}, propagate_nan=tl.PropagateNan.ALL)"
    return x.derive(text, shape=shape)


def _clamp(x: Value, low: float | None, high: float | None) -> Value:
    if low is not None:
        x = _larger(low, x)
    return x if high is None else _smaller(high, x)


def _absolute(x: Value) -> Value:
    if x.dtype.is_float or x.dtype.is_signed:
        return x.derive(f"tl.abs({x.text})")
    return x


def _quotient(a: Value, b: Value) -> Value:
    x, y = unify(a, b)
    return x.derive(f"{x.text} // {y.text}", shape=broadcast(x.shape, y.shape))


def _reinterpret(x: Value, dtype: DType) -> Value:
    if x.dtype is boolean:
        return convert(x, dtype)
    return x.derive(f"{x.text}.to({spell(dtype)}, bitcast=True)", dtype)


def convert(x: Value, dtype: DType, *, saturate: bool = False) -> Value:
    """See `pointwise.vocabulary`."""
    if dtype is x.dtype:
        return x
    if saturate and dtype.is_narrow_float:
        raise TypeError(f"{dtype} is not saturated")
    if dtype is boolean:
        wide = convert(x, f32) if x.dtype.is_narrow_float else x
        return wide.combined("!=", 0)
    if saturate and dtype.is_integer and x.dtype is not boolean:
        return _saturated(x, dtype)
    return x.derive(f"{x.text}.to({spell(dtype)})", dtype)


def _saturated(x: Value, dtype: DType) -> Value:
    """The nearest number that an integer type has; 0 for NaN."""
    wide = convert(x, f32) if x.dtype.is_narrow_float else x
    low, high = dtype.limits
    if wide.dtype.is_integer:
        own_low, own_high = wide.dtype.limits
        return convert(_clamp(wide, max(low, own_low), min(high, own_high)), dtype)
    beyond, below = wide >= float(high + 1), wide <= float(low)
    inside = select(beyond | below | wide.combined("!=", wide), 0.0, wide)
    whole = convert(inside, dtype)
    return select(beyond, high, select(below, low, whole))


def _look_up(x: Value, table: Array) -> Value:
    bits = convert(_reinterpret(x, u8), x.code.index_type)
    return x.code.table(table).load(bits)


def _sigmoid(x: Value, factor: Value | float = 1.0) -> Value:
    """factor / (1 + e^-x)."""
    below = _exponential_below(-x) + 1.0
    return _quick_quotient(factor if isinstance(factor, Value) else x.like(factor), below)


def _quick_quotient(a: Value, b: Value) -> Value:
    """a / b, which may be the neighbour of the nearest float."""
    return a.derive(f"{a.text} / {b.text}", shape=broadcast(a.shape, b.shape))


_TAIL = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)
"""A polynomial in t = 1 / (1 + z / 2): log(erfc(z) / t) + z^2, for z from 0 on."""


def _normal_distribution_doubled(x: Value) -> Value:
    """1 + erf(x / sqrt(2)), as exact where it is next to nothing as elsewhere."""
    if x.dtype is not f32:
        return _function("libdevice.erfc", x * -(0.5**0.5))
    z = _absolute(x) * 0.5**0.5
    t = _quick_quotient(x.like(1.0), z * 0.5 + 1.0)
    power = x.like(_TAIL[-1])
    for coefficient in reversed(_TAIL[:-1]):
        power = _function("tl.fma", power, t, coefficient)
    tail = t * _exponential_below(_function("tl.fma", -z, z, power))
    return select(x < 0, tail, 2.0 - tail)


def _square_root(x: Value) -> Value:
    return _function("tl.sqrt_rn" if x.dtype is f32 else "tl.sqrt", x)


def _exponential_below(x: Value) -> Value:
    """e^x of what is at most zero: by the instruction for powers of two."""
    return _function("tl.exp" if x.dtype is f32 else "libdevice.exp", x)


def _add_saturating(a: Value, b: Value) -> Value:
    x, y = unify(a, b)
    return convert(convert(x, i64) + convert(y, i64), x.dtype, saturate=True)


_SAME_NAMES = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "expm1"),
    *("fmod", "log", "log1p", "pow", "sin", "sinh", "tan", "tanh"),
)
_OTHER_NAMES = {"log1p_of_fraction": "log1p", "quick_expm1": "expm1"}
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: partial(_function, f"libdevice.{name}") for name in _SAME_NAMES},
    **{name: partial(_function, f"libdevice.{theirs}") for name, theirs in _OTHER_NAMES.items()},
    "sqrt": _square_root,
    "exp_down": _exponential_below,
    "normal_distribution_doubled": _normal_distribution_doubled,
    "sigmoid": _sigmoid,
}

TRITON = Vocabulary(
    select=select,
    fma=partial(_function, "tl.fma"),
    larger=_larger,
    smaller=_smaller,
    maximum=_maximum,
    minimum=_minimum,
    clamp=_clamp,
    absolute=_absolute,
    copy_sign=partial(_function, "libdevice.copysign"),
    divide_by_scalar=lambda x, divisor: x / divisor,
    quotient=_quotient,
    reinterpret=_reinterpret,
    convert=convert,
    floor=partial(_function, "libdevice.floor"),
    ceil=partial(_function, "libdevice.ceil"),
    rint=partial(_function, "libdevice.rint"),
    nearest_integer=lambda x: None,
    nearest_quotients=lambda x, divisor, most: None,
    add_saturating=_add_saturating,
    high_product=lambda a, b: None,
    look_up=_look_up,
    has_doubles=lambda x: True,
    functions=_FUNCTIONS,
)
