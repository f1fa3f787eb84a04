"""Element-wise arithmetic of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.torch.importers.operands import (
    as_result,
    number,
    operand,
)
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops.power import Pow
from afterglow.support.errors import UnsupportedError
from afterglow.types.dtype import DTYPES, boolean

_FUNCTIONS: dict[str, type[Op]] = {
    "abs": e.Abs,
    "acos": f.Acos,
    "acosh": f.Acosh,
    "asin": f.Asin,
    "asinh": f.Asinh,
    "atan": f.Atan,
    "atanh": f.Atanh,
    "cos": f.Cos,
    "cosh": f.Cosh,
    "erf": f.Erf,
    "exp": f.Exp,
    "expm1": f.Expm1,
    "log": f.Log,
    "log1p": f.Log1p,
    "neg": e.Neg,
    "reciprocal": f.Reciprocal,
    "sin": f.Sin,
    "sinh": f.Sinh,
    "sqrt": f.Sqrt,
    "tan": f.Tan,
    "tanh": f.Tanh,
}
_ROUNDINGS: dict[str, type[Op]] = {"ceil": e.Ceil, "floor": e.Floor, "round": e.Round}
_PLAIN: dict[str, type[Op]] = {"add": e.Add, "mul": e.Mul, "sub": e.Sub}
_LOGIC: dict[type[Op], type[Op]] = {e.Add: e.Or, e.Mul: e.And, e.Max: e.Or, e.Min: e.And}
"""What arithmetic means for booleans."""


def name_of(n: TorchNode) -> str:
    """The name of the op without its overload."""
    return n.proto.op_type.partition(".")[0]


@aten(*_FUNCTIONS)
def function(n: TorchNode) -> Value:
    """A function of each element; integers are converted where the result is a float."""
    (x,) = as_result(n, "self")
    return n.emit(_FUNCTIONS[name_of(n)](), x)


@aten(*_ROUNDINGS)
def rounding(n: TorchNode) -> Value:
    """Integers stay as they are."""
    x = n.value("self")
    return n.emit(_ROUNDINGS[name_of(n)](), x) if x.type.dtype.is_float else x


@aten("trunc", "fix")
def trunc(n: TorchNode) -> Value:
    """Towards zero."""
    x = n.value("self")
    return truncated(n, x) if x.type.dtype.is_float else x


def truncated(n: TorchNode, x: Value) -> Value:
    """Floats without their fractions."""
    below = n.emit(e.Less(), x, number(n, 0, x.type.dtype))
    return n.emit(e.Where(), below, n.emit(e.Ceil(), x), n.emit(e.Floor(), x))


@aten("frac")
def frac(n: TorchNode) -> Value:
    """What truncation drops."""
    x = n.value("self")
    return n.emit(e.Sub(), x, truncated(n, x))


@aten("sign", "sgn")
def sign(n: TorchNode) -> Value:
    """NaN has none: 0."""
    x = n.value("self")
    if x.type.dtype is boolean:
        return x
    found = n.emit(e.Sign(), x)
    if not x.type.dtype.is_float:
        return found
    return n.emit(e.Where(), n.emit(e.IsNaN(), x), number(n, 0, x.type.dtype), found)


@aten("round.decimals")
def round_decimals(n: TorchNode) -> Value:
    """Scaled by a power of ten, rounded, and scaled back."""
    x, decimals = n.value("self"), n.scalar("decimals")
    if not x.type.dtype.is_float:
        return x
    scale = number(n, 10.0 ** abs(decimals), x.type.dtype)
    before, after = (e.Mul(), e.Div()) if decimals >= 0 else (e.Div(), e.Mul())
    return n.emit(after, n.emit(e.Round(), n.emit(before, x, scale)), scale)


@aten("rsqrt")
def rsqrt(n: TorchNode) -> Value:
    """1 / sqrt(x)."""
    (x,) = as_result(n, "self")
    return n.emit(f.Reciprocal(), n.emit(f.Sqrt(), x))


@aten("log2", "log10")
def log_of_base(n: TorchNode) -> Value:
    """log(x) / log(base)."""
    (x,) = as_result(n, "self")
    base = float(name_of(n).removeprefix("log"))
    return n.emit(e.Div(), n.emit(f.Log(), x), number(n, math.log(base), x.type.dtype))


@aten("exp2")
def exp2(n: TorchNode) -> Value:
    """2 ** x."""
    (x,) = as_result(n, "self")
    return n.emit(Pow(), number(n, 2, x.type.dtype), x)


@aten("erfc")
def erfc(n: TorchNode) -> Value:
    """1 - erf(x)."""
    (x,) = as_result(n, "self")
    return n.emit(e.Sub(), number(n, 1, x.type.dtype), n.emit(f.Erf(), x))


@aten("square")
def square(n: TorchNode) -> Value:
    """x x."""
    (x,) = as_result(n, "self")
    return arithmetic(n, e.Mul(), x, x)


@aten("positive")
def positive(n: TorchNode) -> Value:
    """The operand."""
    return n.value("self")


def arithmetic(n: TorchNode, op: Op, lhs: Value, rhs: Value) -> Value:
    """An op of two operands; of booleans, what that op is for them."""
    if lhs.type.dtype is boolean and type(op) in _LOGIC:
        op = _LOGIC[type(op)]()
    return n.emit(op, lhs, rhs)


@aten("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def add(n: TorchNode) -> Value:
    """self ± alpha other."""
    lhs, rhs = as_result(n, "self", "other")
    return arithmetic(n, _PLAIN[name_of(n)](), lhs, _times_alpha(n, rhs))


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(n: TorchNode) -> Value:
    """other - alpha self."""
    lhs, rhs = as_result(n, "self", "other")
    return n.emit(e.Sub(), rhs, _times_alpha(n, lhs))


def _times_alpha(n: TorchNode, x: Value) -> Value:
    alpha = n.argument("alpha")
    if alpha is None or (not isinstance(alpha, Value) and alpha == 1):
        return x
    return arithmetic(n, e.Mul(), x, operand(n, "alpha", x.type.dtype))


@aten("mul.Tensor", "mul.Scalar")
def mul(n: TorchNode) -> Value:
    """self other."""
    return arithmetic(n, e.Mul(), *as_result(n, "self", "other"))


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(n: TorchNode) -> Value:
    """A quotient of floats, also of integers."""
    return n.emit(e.Div(), *as_result(n, "self", "other"))


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(n: TorchNode) -> Value:
    """A quotient that may be rounded."""
    lhs, rhs = as_result(n, "self", "other")
    mode = n.argument("rounding_mode")
    if mode == "floor":
        return floor_quotient(n, lhs, rhs)
    quotient = n.emit(e.Div(), lhs, rhs)
    return truncated(n, quotient) if mode == "trunc" and lhs.type.dtype.is_float else quotient


@aten("floor_divide", "floor_divide.Scalar")
def floor_divide(n: TorchNode) -> Value:
    """A quotient rounded down."""
    return floor_quotient(n, *as_result(n, "self", "other"))


def floor_quotient(n: TorchNode, lhs: Value, rhs: Value) -> Value:
    """A quotient rounded down, from the remainder as PyTorch does it."""
    dtype = lhs.type.dtype
    zero, one = number(n, 0, dtype), number(n, 1, dtype)
    rest = n.emit(e.Mod(truncated=True), lhs, rhs)
    plain = n.emit(e.Div(), lhs, rhs)
    whole = n.emit(e.Div(), n.emit(e.Sub(), lhs, rest), rhs) if dtype.is_float else plain
    signs = [n.emit(e.Less(), each, zero) for each in (rest, rhs)]
    is_rest = n.emit(e.Not(), n.emit(e.Equal(), rest, zero))
    below = n.emit(e.And(), is_rest, n.emit(e.Xor(), *signs))
    found = n.emit(e.Where(), below, n.emit(e.Sub(), whole, one), whole)
    if not dtype.is_float:
        return found
    nearest = n.emit(e.Round(), found)  # it is whole but for rounding errors
    return n.emit(e.Where(), n.emit(e.Equal(), rhs, zero), plain, nearest)


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(n: TorchNode) -> Value:
    """The sign is that of the divisor."""
    return n.emit(e.Mod(), *as_result(n, "self", "other"))


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(n: TorchNode) -> Value:
    """The sign is that of the dividend."""
    return n.emit(e.Mod(truncated=True), *as_result(n, "self", "other"))


_POWERS: dict[float, Callable[[TorchNode, Value], Value]] = {
    0.5: lambda n, x: n.emit(f.Sqrt(), x),
    -0.5: lambda n, x: n.emit(f.Reciprocal(), n.emit(f.Sqrt(), x)),
    -1.0: lambda n, x: n.emit(f.Reciprocal(), x),
}
"""Powers of floats that PyTorch computes in another way."""


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(n: TorchNode) -> Value:
    """self ** exponent; small whole exponents are products."""
    (base,) = as_result(n, "self")
    dtype = base.type.dtype
    if dtype is boolean:
        raise UnsupportedError("powers of bool are not supported", help="cast to integers")
    exponent = n.argument("exponent")
    if not isinstance(exponent, Value):
        if dtype.is_float and exponent in _POWERS:
            return _POWERS[exponent](n, base)
        if exponent in (1, 2, 3):
            product = base
            for _ in range(int(exponent) - 1):
                product = n.emit(e.Mul(), product, base)
            return product
    powers = operand(n, "exponent", dtype)
    return n.emit(Pow(), base, powers) if dtype.is_float else _integer_power(n, base, powers)


def _integer_power(n: TorchNode, base: Value, exponent: Value) -> Value:
    """Squares multiplied by the bits of the exponent, which wrap around; fractions are 0."""
    dtype = base.type.dtype
    zero, one = number(n, 0, dtype), number(n, 1, dtype)
    result, factor, left = one, base, exponent
    for _ in range(_bits_of(n, exponent)):
        is_odd = n.emit(e.Equal(), n.emit(e.And(), left, one), one)
        result = n.emit(e.Where(), is_odd, n.emit(e.Mul(), result, factor), result)
        factor = n.emit(e.Mul(), factor, factor)
        left = n.emit(e.ShiftRight(), left, one)
    if not dtype.is_signed:
        return result
    unit = n.emit(e.Equal(), n.emit(e.Abs(), base), one)
    is_odd = n.emit(e.Equal(), n.emit(e.And(), exponent, one), one)
    inverse = n.emit(e.Where(), unit, n.emit(e.Where(), is_odd, base, one), zero)
    return n.emit(e.Where(), n.emit(e.Less(), exponent, zero), inverse, result)


def _bits_of(n: TorchNode, exponent: Value) -> int:
    """How many bits of an exponent count: those of a known one, else all that change anything."""
    known = n.value_if_known(exponent)
    if known is not None and known.size:
        return max(0, int(known.max())).bit_length()
    return 7


@aten("maximum", "max.other")
def maximum(n: TorchNode) -> Value:
    """NaN if either is NaN."""
    return arithmetic(n, e.Max(), *as_result(n, "self", "other"))


@aten("minimum", "min.other")
def minimum(n: TorchNode) -> Value:
    """NaN if either is NaN."""
    return arithmetic(n, e.Min(), *as_result(n, "self", "other"))


@aten("fmax", "fmin")
def ignoring_nan(n: TorchNode) -> Value:
    """The other one if one is NaN."""
    lhs, rhs = as_result(n, "self", "other")
    found = arithmetic(n, e.Max() if name_of(n) == "fmax" else e.Min(), lhs, rhs)
    if not lhs.type.dtype.is_float:
        return found
    found = n.emit(e.Where(), n.emit(e.IsNaN(), rhs), lhs, found)
    return n.emit(e.Where(), n.emit(e.IsNaN(), lhs), rhs, found)


@aten("clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor")
def clamp(n: TorchNode) -> Value:
    """Not below `min`, then not above `max`."""
    (x,) = as_result(n, "self")
    if n.argument("min") is not None:
        x = n.emit(e.Max(), x, operand(n, "min", x.type.dtype))
    if n.argument("max") is not None:
        x = n.emit(e.Min(), x, operand(n, "max", x.type.dtype))
    return x


def sign_bit(n: TorchNode, x: Value) -> Value:
    """Whether the sign is minus, also that of zero."""
    dtype = x.type.dtype
    if not dtype.is_float:
        return n.emit(e.Less(), x, number(n, 0, dtype)) if dtype is not boolean else _never(n, x)
    bits = n.emit(e.BitCast(DTYPES[f"i{dtype.bits}"]), x)
    return n.emit(e.Less(), bits, number(n, 0, bits.type.dtype))


def _never(n: TorchNode, x: Value) -> Value:
    return n.emit(e.And(), x, number(n, value=False, dtype=boolean))


@aten("signbit")
def signbit(n: TorchNode) -> Value:
    """Whether the sign is minus."""
    return sign_bit(n, n.value("self"))


def copy_sign(n: TorchNode, x: Value, sign: Value) -> Value:
    """The magnitude of x with another sign."""
    size = n.emit(e.Abs(), x)
    return n.emit(e.Where(), sign_bit(n, sign), n.emit(e.Neg(), size), size)


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(n: TorchNode) -> Value:
    """The magnitude of one with the sign of the other."""
    return copy_sign(n, *as_result(n, "self", "other"))


@aten("atan2")
def atan2(n: TorchNode) -> Value:
    """atan(|y| / |x|), mirrored where x is negative, with the sign of y."""
    y, x = as_result(n, "self", "other")
    dtype = x.type.dtype
    ratio = n.emit(e.Div(), *_both_finite(n, n.emit(e.Abs(), y), n.emit(e.Abs(), x)))
    angle = n.emit(f.Atan(), ratio)
    mirrored = n.emit(e.Sub(), number(n, math.pi, dtype), angle)
    return copy_sign(n, n.emit(e.Where(), sign_bit(n, x), mirrored, angle), y)


def _both_finite(n: TorchNode, y: Value, x: Value) -> tuple[Value, Value]:
    """Magnitudes whose quotient is defined: 1 / 1 for two infinities, 0 / 1 for two zeros."""
    one, zero = number(n, 1, x.type.dtype), number(n, 0, x.type.dtype)
    infinite = n.emit(e.And(), n.emit(e.IsInf(), y), n.emit(e.IsInf(), x))
    nothing = n.emit(e.And(), n.emit(e.Equal(), y, zero), n.emit(e.Equal(), x, zero))
    unit = n.emit(e.Or(), infinite, nothing)
    return n.emit(e.Where(), infinite, one, y), n.emit(e.Where(), unit, one, x)


@aten("angle")
def angle(n: TorchNode) -> Value:
    """Half a turn for negative numbers."""
    (x,) = as_result(n, "self")
    zero, half = number(n, 0, x.type.dtype), number(n, math.pi, x.type.dtype)
    found = n.emit(e.Where(), n.emit(e.Less(), x, zero), half, zero)
    return n.emit(e.Where(), n.emit(e.IsNaN(), x), x, found)


@aten("hypot")
def hypot(n: TorchNode) -> Value:
    """sqrt(x² + y²), scaled by the larger so that no square overflows."""
    x, y = (n.emit(e.Abs(), each) for each in as_result(n, "self", "other"))
    large, small = n.emit(e.Max(), x, y), n.emit(e.Min(), x, y)
    zero, one = number(n, 0, x.type.dtype), number(n, 1, x.type.dtype)
    ratio = n.emit(e.Div(), small, large)
    root = n.emit(f.Sqrt(), n.emit(e.Add(), one, n.emit(e.Mul(), ratio, ratio)))
    found = n.emit(e.Where(), n.emit(e.Equal(), large, zero), zero, n.emit(e.Mul(), large, root))
    infinite = n.emit(e.Or(), n.emit(e.IsInf(), x), n.emit(e.IsInf(), y))
    return n.emit(e.Where(), infinite, number(n, math.inf, x.type.dtype), found)


@aten("logaddexp", "logaddexp2")
def logaddexp(n: TorchNode) -> Value:
    """log(exp(a) + exp(b)), from the larger on so that nothing overflows."""
    a, b = as_result(n, "self", "other")
    return log_add(n, a, b, 2.0 if name_of(n) == "logaddexp2" else math.e)


def log_add(n: TorchNode, a: Value, b: Value, base: float = math.e) -> Value:
    """The logarithm of the sum of two powers of the base."""
    dtype = a.type.dtype
    scale = partial(number, n, dtype=dtype)
    large, small = n.emit(e.Max(), a, b), n.emit(e.Min(), a, b)
    difference = n.emit(e.Sub(), small, large)
    if base != math.e:
        difference = n.emit(e.Mul(), difference, scale(math.log(base)))
    rest = n.emit(f.Log1p(), n.emit(f.Exp(), difference))
    if base != math.e:
        rest = n.emit(e.Div(), rest, scale(math.log(base)))
    equal = n.emit(e.And(), n.emit(e.IsInf(), large), n.emit(e.Equal(), a, b))
    return n.emit(e.Where(), equal, large, n.emit(e.Add(), large, rest))


@aten("heaviside")
def heaviside(n: TorchNode) -> Value:
    """0 below zero, 1 above, `values` at zero."""
    x, values = as_result(n, "self", "values")
    zero, one = number(n, 0, x.type.dtype), number(n, 1, x.type.dtype)
    above = n.emit(e.Where(), n.emit(e.Less(), zero, x), one, zero)
    found = n.emit(e.Where(), n.emit(e.Equal(), x, zero), values, above)
    return found


@aten("nextafter")
def nextafter(n: TorchNode) -> Value:
    """The neighbour of self towards other: its bits as an integer, one up or down."""
    x, goal = as_result(n, "self", "other")
    dtype = x.type.dtype
    whole = DTYPES[f"i{dtype.bits}"]
    zero, one = number(n, 0, whole), number(n, 1, whole)
    bits = n.emit(e.BitCast(whole), x)
    outwards = n.emit(e.Equal(), n.emit(e.Less(), x, goal), n.emit(e.LessEqual(), zero, bits))
    step = n.emit(e.Where(), outwards, one, number(n, -1, whole))
    moved = n.emit(e.BitCast(dtype), n.emit(e.Add(), bits, step))
    least = copy_sign(n, n.emit(e.BitCast(dtype), one), goal)
    moved = n.emit(e.Where(), n.emit(e.Equal(), x, number(n, 0, dtype)), least, moved)
    moved = n.emit(e.Where(), n.emit(e.Equal(), x, goal), goal, moved)
    moved = n.emit(e.Where(), n.emit(e.IsNaN(), goal), goal, moved)
    return n.emit(e.Where(), n.emit(e.IsNaN(), x), x, moved)


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(n: TorchNode) -> Value:
    """One of two by a condition."""
    condition = as_dtype(n, n.value("condition"), boolean)
    return n.emit(e.Where(), condition, *as_result(n, "self", "other"))


@aten("addcmul", "addcdiv")
def add_scaled(n: TorchNode) -> Value:
    """self + value tensor1 * or / tensor2."""
    x, first, second = as_result(n, "self", "tensor1", "tensor2")
    value = operand(n, "value", x.type.dtype)
    op = e.Mul() if name_of(n) == "addcmul" else e.Div()
    return n.emit(e.Add(), x, n.emit(op, n.emit(e.Mul(), value, first), second))
