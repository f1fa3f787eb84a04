"""The names that LLVM calls routines by: those of Arm's run-time ABI, and those of everyone else.

Arm passes floats to its routines in integer registers, so there they are declared as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from afterglow.backends.cpu.llvm.emitter import Emitter, Value, convert
from afterglow.backends.cpu.llvm.routines.arithmetic import (
    add,
    divide,
    multiply,
    square_root,
    subtract,
)
from afterglow.backends.cpu.llvm.routines.comparison import (
    Comparison,
    compare,
    is_at_least,
    is_at_most,
    is_equal,
    is_less,
    is_more,
    is_unordered,
)
from afterglow.backends.cpu.llvm.routines.conversion import from_integer, to_form, to_integer
from afterglow.backends.cpu.llvm.routines.division import divide as divide_integers
from afterglow.backends.cpu.llvm.routines.float_format import DOUBLE, SINGLE, FloatFormat
from afterglow.backends.cpu.llvm.routines.halves import count_leading_zeros, shift_left, shift_right
from afterglow.backends.cpu.llvm.routines.halves import multiply as multiply_halves
from afterglow.backends.cpu.llvm.routines.routine import Routine
from afterglow.types.dtype import DType, f32, f64, i32, i64, u32, u64

_Binary = Callable[[Emitter, FloatFormat, Value, Value], Value]
Entry = tuple[str, Routine]
"""A name and what it names."""

_FLOATS: dict[FloatFormat, tuple[str, str, DType]] = {
    SINGLE: ("f", "sf", f32),
    DOUBLE: ("d", "df", f64),
}
"""How the two schemes name a format, and its element type."""
_INTEGERS: dict[DType, tuple[str, str, str]] = {
    i32: ("i", "", "si"),
    u32: ("ui", "un", "si"),
    i64: ("l", "", "di"),
    u64: ("ul", "un", "di"),
}
"""How the two schemes name an integer: Arm's letters, and the others' sign and size."""
_ARITHMETIC = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "div": divide,
}
_ARM_COMPARISONS: dict[str, Comparison] = {
    "eq": is_equal,
    "lt": is_less,
    "le": is_at_most,
    "gt": is_more,
    "ge": is_at_least,
    "un": is_unordered,
}
_UNORDERED = {"eq": 1, "ne": 1, "lt": 1, "le": 1, "gt": -1, "ge": -1}
"""The others compare by a number below, equal to or above 0; and what that is beside NaN."""


def _arithmetic(form: FloatFormat) -> Iterator[Entry]:
    letter, suffix, dtype = _FLOATS[form]
    for name, write in _ARITHMETIC.items():

        def compute(e: Emitter, x: list[Value], write: _Binary = write) -> list[Value]:
            """The operation on encodings."""
            return [write(e, form, x[0], x[1])]

        bits = form.bits
        yield f"__aeabi_{letter}{name}", Routine((bits, bits), bits, compute)
        yield f"__{name}{suffix}3", Routine((dtype, dtype), dtype, compute)
    root = "sqrtf" if form is SINGLE else "sqrt"
    yield root, Routine((dtype,), dtype, lambda e, x: [square_root(e, form, x[0])])


def _comparisons(form: FloatFormat) -> Iterator[Entry]:
    letter, suffix, dtype = _FLOATS[form]
    for name, ask in _ARM_COMPARISONS.items():

        def answer(_: Emitter, x: list[Value], ask: Comparison = ask) -> list[Value]:
            """1 if it holds, else 0."""
            return [convert(ask(form, x[0], x[1]), i32)]

        yield f"__aeabi_{letter}cmp{name}", Routine((form.bits, form.bits), i32, answer)
        if name == "un":
            yield f"__unord{suffix}2", Routine((dtype, dtype), i32, answer)
    for name, number in _UNORDERED.items():

        def against_zero(_: Emitter, x: list[Value], number: int = number) -> list[Value]:
            """A number to compare with 0."""
            return [compare(form, x[0], x[1], unordered=number)]

        yield f"__{name}{suffix}2", Routine((dtype, dtype), i32, against_zero)


def _conversions(form: FloatFormat) -> Iterator[Entry]:
    letter, suffix, dtype = _FLOATS[form]
    for integer, (arm, sign, size) in _INTEGERS.items():

        def to_float(_: Emitter, x: list[Value]) -> list[Value]:
            """The nearest float."""
            return [from_integer(form, x[0])]

        def truncate(_: Emitter, x: list[Value], to: DType = integer) -> list[Value]:
            """The integer without the fraction."""
            return [to_integer(form, x[0], to)]

        yield f"__aeabi_{arm}2{letter}", Routine((integer,), form.bits, to_float)
        yield f"__float{sign}{size}{suffix}", Routine((integer,), dtype, to_float)
        yield f"__aeabi_{letter}2{arm}z", Routine((form.bits,), integer, truncate)
        fix = f"__fix{'uns' if sign else ''}{suffix}{size}"
        yield fix, Routine((dtype,), integer, truncate)


def _between_floats() -> Iterator[Entry]:
    def widen(_: Emitter, x: list[Value]) -> list[Value]:
        return [to_form(x[0], SINGLE, DOUBLE)]

    def narrow(_: Emitter, x: list[Value]) -> list[Value]:
        return [to_form(x[0], DOUBLE, SINGLE)]

    yield "__aeabi_f2d", Routine((u32,), u64, widen)
    yield "__extendsfdf2", Routine((f32,), f64, widen)
    yield "__aeabi_d2f", Routine((u64,), u32, narrow)
    yield "__truncdfsf2", Routine((f64,), f32, narrow)


def _divisions() -> Iterator[Entry]:
    for integer, (arm, sign, size) in _INTEGERS.items():
        kinds = (integer, integer)
        unsigned = "u" if sign else ""
        yield f"__{unsigned}div{size}3", Routine(kinds, integer, _quotient)
        yield f"__{unsigned}mod{size}3", Routine(kinds, integer, _rest)
        yield f"__aeabi_{arm}divmod", Routine(kinds, integer, _both)
        if integer.bits == 32:
            yield f"__aeabi_{arm}div", Routine(kinds, integer, _quotient)


def _halves() -> Iterator[Entry]:
    def left(_: Emitter, x: list[Value]) -> list[Value]:
        return [shift_left(x[0], x[1])]

    def right(_: Emitter, x: list[Value]) -> list[Value]:
        return [shift_right(x[0], x[1])]

    def product(_: Emitter, x: list[Value]) -> list[Value]:
        return [multiply_halves(x[0], x[1])]

    yield "__clzsi2", Routine((u32,), i32, lambda _, x: [count_leading_zeros(x[0])])
    yield from ((name, Routine((u64, u32), u64, left)) for name in ("__aeabi_llsl", "__ashldi3"))
    yield from ((name, Routine((u64, u32), u64, right)) for name in ("__aeabi_llsr", "__lshrdi3"))
    yield from ((name, Routine((i64, u32), i64, right)) for name in ("__aeabi_lasr", "__ashrdi3"))
    yield from ((name, Routine((u64, u64), u64, product)) for name in ("__aeabi_lmul", "__muldi3"))


def _both(e: Emitter, x: list[Value]) -> list[Value]:
    return list(divide_integers(e, x[0], x[1]))


def _quotient(e: Emitter, x: list[Value]) -> list[Value]:
    return _both(e, x)[:1]


def _rest(e: Emitter, x: list[Value]) -> list[Value]:
    return _both(e, x)[1:]


def _all() -> Iterator[Entry]:
    for form in _FLOATS:
        yield from _arithmetic(form)
        yield from _comparisons(form)
        yield from _conversions(form)
    yield from _between_floats()
    yield from _divisions()
    yield from _halves()


ROUTINES: dict[str, Routine] = dict(_all())
"""Every routine by its name."""
