"""Routines of floats and integers, run here: bit for bit what this processor gives."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, compile_module, load_host
from afterglow.backends.cpu.llvm.routines import ROUTINES, write_routines

CTYPES = {
    np.dtype("f4"): ctypes.c_float,
    np.dtype("f8"): ctypes.c_double,
    np.dtype("i4"): ctypes.c_int32,
    np.dtype("u4"): ctypes.c_uint32,
    np.dtype("i8"): ctypes.c_int64,
    np.dtype("u8"): ctypes.c_uint64,
}
RANDOM = np.random.default_rng(3)
ARM = [name for name in ROUTINES if name.startswith("__aeabi")]
OTHERS = [name for name in ROUTINES if name not in ARM]


@pytest.fixture(scope="module")
def routine() -> Callable[[str], Any]:
    module = Module(Target.host())
    renamed = {f"routine_{name}": name for name in OTHERS}
    write_routines(module, OTHERS)
    text = module.text
    for new, name in renamed.items():  # or the process's own would be found
        text = text.replace(f"@{name}(", f"@{new}(")
    library = load_host(compile_module(text, module.target), list(renamed), module.target)

    def find(name: str) -> Any:
        kinds = [CTYPES[dtype.numpy] for dtype in ROUTINES[name].parameters]
        result = CTYPES[ROUTINES[name].result.numpy]
        return library.function(f"routine_{name}", *kinds, result=result)

    return find


def numbers(kind: str) -> list[Any]:
    """Awkward and random numbers of a type."""
    dtype = np.dtype(kind)
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        near = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, 1 << 24, 10**6 + 1]
        wide = RANDOM.integers(info.min, info.max, 20, dtype, endpoint=True)
        return (
            [dtype.type(x) for x in near]
            + list(wide)
            + list(wide >> dtype.type(dtype.itemsize * 5))
        )
    info = np.finfo(dtype)
    special = [0.0, -0.0, 1.0, -1.0, 1.5, np.inf, -np.inf, np.nan, info.max, info.tiny, -info.tiny]
    small = [
        info.smallest_subnormal,
        -info.smallest_subnormal,
        info.tiny * 0.75,
        info.eps,
        1 + info.eps,
    ]
    bits = RANDOM.integers(0, 1 << 62, 30, np.uint64) * np.uint64(5)
    anything = bits.astype(f"u{dtype.itemsize}").view(dtype)
    near = RANDOM.standard_normal(30).astype(dtype)
    return [dtype.type(x) for x in (*special, *small)] + list(anything) + list(near)


def same(a: Any, b: Any) -> bool:
    """Equal bits, or both NaN."""
    return bool(a.tobytes() == b.tobytes() or (np.isnan(a) and np.isnan(b)))


FLOATS = [("f4", "sf"), ("f8", "df")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "suffix"), FLOATS)
@pytest.mark.parametrize(
    ("name", "meaning"),
    [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)],
)
def test_arithmetic(routine: Any, kind: str, suffix: str, name: str, meaning: Any) -> None:
    call, dtype = routine(f"__{name}{suffix}3"), np.dtype(kind)
    for a in numbers(kind):
        for b in numbers(kind):
            assert same(dtype.type(call(a, b)), meaning(a, b)), (a, b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "name"), [("f4", "sqrtf"), ("f8", "sqrt")])
def test_square_roots(routine: Any, kind: str, name: str) -> None:
    call, dtype = routine(name), np.dtype(kind)
    for a in numbers(kind):
        assert same(dtype.type(call(a)), np.sqrt(a)), a


@pytest.mark.parametrize(("kind", "suffix"), FLOATS)
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(routine: Any, kind: str, suffix: str, name: str) -> None:
    call, meaning = routine(f"__{name}{suffix}2"), getattr(operator, name)
    for a in numbers(kind):
        for b in numbers(kind):
            assert meaning(call(a, b), 0) == bool(meaning(a, b)), (a, b)


@pytest.mark.parametrize(("kind", "suffix"), FLOATS)
def test_unordered(routine: Any, kind: str, suffix: str) -> None:
    call = routine(f"__unord{suffix}2")
    for a in numbers(kind):
        assert call(a, a) == int(np.isnan(a))
        assert call(a, np.nan) == call(np.nan, a) == 1


@pytest.mark.filterwarnings("ignore")
def test_between_floats(routine: Any) -> None:
    widen, narrow = routine("__extendsfdf2"), routine("__truncdfsf2")
    for a in numbers("f4"):
        assert same(np.float64(widen(a)), np.float64(a)), a
    for b in [*numbers("f8"), *map(np.float64, numbers("f4"))]:
        assert same(np.float32(narrow(b)), np.float32(b)), b


@pytest.mark.parametrize(("kind", "suffix"), FLOATS)
@pytest.mark.parametrize(
    ("integer", "size"), [("i4", "si"), ("u4", "unsi"), ("i8", "di"), ("u8", "undi")]
)
def test_floats_of_integers(routine: Any, kind: str, suffix: str, integer: str, size: str) -> None:
    call, dtype = routine(f"__float{size}{suffix}"), np.dtype(kind)
    for a in numbers(integer):
        assert same(dtype.type(call(int(a))), a.astype(dtype)), a


@pytest.mark.parametrize(("kind", "suffix"), FLOATS)
@pytest.mark.parametrize(
    ("integer", "uns", "size"),
    [("i4", "", "si"), ("u4", "uns", "si"), ("i8", "", "di"), ("u8", "uns", "di")],
)
def test_integers_of_floats(
    routine: Any, kind: str, suffix: str, integer: str, uns: str, size: str
) -> None:
    call, info = routine(f"__fix{uns}{suffix}{size}"), np.iinfo(integer)
    for a in numbers(kind):
        if np.isfinite(a) and info.min <= int(a) <= info.max and (not uns or a >= 0):
            assert call(a) == int(a), a


@pytest.mark.parametrize(
    ("integer", "u", "size"),
    [("i4", "", "si"), ("u4", "u", "si"), ("i8", "", "di"), ("u8", "u", "di")],
)
def test_division(routine: Any, integer: str, u: str, size: str) -> None:
    divide, modulo = routine(f"__{u}div{size}3"), routine(f"__{u}mod{size}3")
    info = np.iinfo(integer)
    for a in map(int, numbers(integer)):
        for b in map(int, numbers(integer)):
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
            if b and quotient <= info.max:
                assert divide(a, b) == quotient, (a, b)
                assert modulo(a, b) == a - quotient * b, (a, b)


@pytest.mark.parametrize("name", ["__ashldi3", "__lshrdi3", "__ashrdi3"])
def test_shifts_of_64_bits(routine: Any, name: str) -> None:
    call = routine(name)
    for a in map(int, numbers("i8" if name == "__ashrdi3" else "u8")):
        for count in range(64):
            wanted = (a << count) % 2**64 if name == "__ashldi3" else a >> count
            assert call(a, count) == wanted, (a, count)


def test_products_of_64_bits(routine: Any) -> None:
    call = routine("__muldi3")
    for a in map(int, numbers("u8")):
        for b in map(int, numbers("u8")):
            assert call(a, b) == a * b % 2**64, (a, b)


def test_leading_zeros(routine: Any) -> None:
    call = routine("__clzsi2")
    for a in [*map(int, numbers("u4")), *(1 << bit for bit in range(32))]:
        assert call(a) == 32 - a.bit_length(), a
