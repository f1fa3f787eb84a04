"""What expressions do to values, in OpenCL C."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from afterglow.backends.opencl.clc.narrow import decode, encode
from afterglow.backends.opencl.clc.types import spell
from afterglow.backends.opencl.clc.value import Value, mask_of
from afterglow.backends.pointwise.value import unify
from afterglow.backends.pointwise.vocabulary import Vocabulary
from afterglow.types import Array
from afterglow.types.dtype import DType, boolean, f32, f64, u8


def select(condition: Value, then: Value | float, otherwise: Value | float) -> Value:
    """See `pointwise.vocabulary`."""
    chosen, other = unify(then, otherwise)
    lanes = max(condition.lanes, chosen.lanes)
    chosen, other, condition = chosen.splat(lanes), other.splat(lanes), condition.splat(lanes)
    bits = 32 if chosen.dtype is boolean or lanes == 1 else chosen.dtype.bits
    return chosen.derive(f"{mask_of(condition, bits)} ? {chosen.text} : {other.text}")


def _builtin(name: str, *operands: Value | float) -> Value:
    """A function of OpenCL C on values of one type, which is also the result's."""
    values = unify(*operands)
    return values[0].derive(f"{name}({', '.join(value.text for value in values)})")


def _larger(a: Value | float, b: Value | float) -> Value:
    x, y = unify(a, b)
    return select(x > y, x, y)


def _smaller(a: Value | float, b: Value | float) -> Value:
    x, y = unify(a, b)
    return select(x < y, x, y)


def _maximum(a: Value, b: Value) -> Value:
    x, y = unify(a, b)
    return select(x.combined("!=", x), x, _larger(x, y)) if x.dtype.is_float else _larger(x, y)


def _minimum(a: Value, b: Value) -> Value:
    x, y = unify(a, b)
    return select(x.combined("!=", x), x, _smaller(x, y)) if x.dtype.is_float else _smaller(x, y)


def _clamp(x: Value, low: float | None, high: float | None) -> Value:
    if low is not None:
        x = _larger(low, x)
    return x if high is None else _smaller(high, x)


def _absolute(x: Value) -> Value:
    if x.dtype.is_float:
        return _builtin("fabs", x)
    return select(x < 0, 0 - x, x) if x.dtype.is_signed else x


def _quotient(a: Value, b: Value) -> Value:
    x, y = unify(a, b)
    return x.derive(f"({x.type})({x.text} / {y.text})")


def _reinterpret(x: Value, dtype: DType) -> Value:
    if spell(dtype) == spell(x.dtype):
        return Value(x.code, dtype, x.lanes, x.text)
    return x.derive(f"as_{spell(dtype, x.lanes)}({x.text})", dtype)


def convert(x: Value, dtype: DType, *, saturate: bool = False) -> Value:
    """See `pointwise.vocabulary`."""
    if dtype is x.dtype:
        return x
    if dtype.is_narrow_float:
        return encode(x if x.dtype is f64 else convert(x, f32), dtype, saturate=saturate)
    if x.dtype.is_narrow_float:
        x = decode(x)
        if dtype is f32:
            return x
    if dtype is boolean:
        return x.combined("!=", 0)
    if x.dtype is boolean:
        return select(x, x.of_type(dtype, 1), x.of_type(dtype, 0))
    sat = "_sat" if saturate and not dtype.is_float else ""
    return x.derive(f"convert_{spell(dtype, x.lanes)}{sat}({x.text})", dtype)


def _look_up(x: Value, table: Array) -> Value:
    held = x.code.table(table)
    bits = convert(_reinterpret(x, u8), x.code.index_type)
    if x.lanes == 1:
        return held.load(bits)
    entries = ", ".join(f"{held.name}[{bits.text}.s{lane:x}]" for lane in range(x.lanes))
    return x.derive(f"({spell(held.dtype, x.lanes)})({entries})", held.dtype)


def _sigmoid(x: Value, factor: Value | float = 1.0) -> Value:
    """factor / (1 + e^-x)."""
    return factor / (_builtin("exp", -x) + 1.0)


def _normal_distribution_doubled(x: Value) -> Value:
    """1 + erf(x / sqrt(2))."""
    return _builtin("erfc", x * -(0.5**0.5))


def _has_doubles(x: Value) -> bool:
    return x.code.double


_SAME_NAMES = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "fmod",
    "log",
    "log1p",
    "pow",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
)
_OTHER_NAMES = {"exp_down": "exp", "log1p_of_fraction": "log1p", "quick_expm1": "expm1"}
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: partial(_builtin, name) for name in _SAME_NAMES},
    **{name: partial(_builtin, theirs) for name, theirs in _OTHER_NAMES.items()},
    "normal_distribution_doubled": _normal_distribution_doubled,
    "sigmoid": _sigmoid,
}

CLC = Vocabulary(
    select=select,
    fma=partial(_builtin, "fma"),
    larger=_larger,
    smaller=_smaller,
    maximum=_maximum,
    minimum=_minimum,
    clamp=_clamp,
    absolute=_absolute,
    copy_sign=partial(_builtin, "copysign"),
    divide_by_scalar=lambda x, divisor: x / divisor,
    quotient=_quotient,
    reinterpret=_reinterpret,
    convert=convert,
    floor=partial(_builtin, "floor"),
    ceil=partial(_builtin, "ceil"),
    rint=partial(_builtin, "rint"),
    nearest_integer=lambda x: None,
    nearest_quotients=lambda x, divisor, most: None,
    add_saturating=partial(_builtin, "add_sat"),
    high_product=lambda a, b: None,
    look_up=_look_up,
    has_doubles=_has_doubles,
    functions=_FUNCTIONS,
)
