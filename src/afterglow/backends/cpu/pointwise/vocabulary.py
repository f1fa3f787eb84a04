"""What expressions do to values, in LLVM's language."""

from __future__ import annotations

from afterglow.backends.cpu.llvm import emitter, math
from afterglow.backends.cpu.llvm.emitter import Emitter, Value
from afterglow.backends.cpu.pointwise.fast import (
    expm1,
    log1p_of_fraction,
    normal_distribution_doubled,
    sigmoid,
    tanh,
)
from afterglow.backends.cpu.pointwise.remainder import fmod
from afterglow.backends.pointwise.vocabulary import Vocabulary
from afterglow.types import Array
from afterglow.types.dtype import f32


def _look_up(x: Value, table: Array) -> Value:
    """The entries of a table that the code has beside it."""
    code = x.code
    assert isinstance(code, Emitter)
    return emitter.look_up(code.module.table(code, "table", table), x)


def _nearest_integer(x: Value) -> Value | None:
    single = x.dtype is f32 and x.lanes == 1
    return emitter.nearest_integer(x) if single and x.code.target.rounding_conversion else None


def _nearest_quotients(x: Value, divisor: Value, most: float) -> Value | None:
    if not emitter.has_nearest_integers(x):
        return None
    return emitter.nearest_integers(emitter.limited_quotient(x, divisor, most))


def _has_doubles(x: Value) -> bool:
    return x.code.target.double_precision


LLVM = Vocabulary(
    select=emitter.select,
    fma=emitter.fma,
    larger=emitter.larger,
    smaller=emitter.smaller,
    maximum=emitter.maximum,
    minimum=emitter.minimum,
    clamp=emitter.clamp,
    absolute=emitter.absolute,
    copy_sign=emitter.copy_sign,
    divide_by_scalar=emitter.divide_by_scalar,
    quotient=emitter.quotient,
    reinterpret=emitter.reinterpret,
    convert=emitter.convert,
    floor=emitter.floor,
    ceil=emitter.ceil,
    rint=emitter.rint,
    nearest_integer=_nearest_integer,
    nearest_quotients=_nearest_quotients,
    add_saturating=emitter.add_saturating,
    high_product=emitter.high_product,
    look_up=_look_up,
    has_doubles=_has_doubles,
    functions={
        "acos": math.acos,
        "acosh": math.acosh,
        "asin": math.asin,
        "asinh": math.asinh,
        "atan": math.atan,
        "atanh": math.atanh,
        "cos": math.cos,
        "cosh": math.cosh,
        "erf": math.erf,
        "exp": math.exp,
        "exp_down": math.exp_down,
        "expm1": math.expm1,
        "fmod": fmod,
        "log": math.log,
        "log1p": math.log1p,
        "log1p_of_fraction": log1p_of_fraction,
        "normal_distribution_doubled": normal_distribution_doubled,
        "pow": math.pow,
        "quick_expm1": expm1,
        "sigmoid": sigmoid,
        "sin": math.sin,
        "sinh": math.sinh,
        "sqrt": emitter.sqrt,
        "tan": math.tan,
        "tanh": tanh,
    },
)
