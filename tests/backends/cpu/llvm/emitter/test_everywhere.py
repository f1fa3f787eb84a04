"""The whole vocabulary compiles for every named target, without calls of C's library."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from afterglow.backends.cpu import Emitter, Module, Target, assembly, verify_module
from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    Value,
    absolute,
    add_saturating,
    ceil,
    convert,
    copy_sign,
    deinterleave,
    first_lanes,
    floor,
    fma,
    gather,
    interleave,
    leading_zeros,
    load_masked,
    maximum,
    minimum,
    reduce_max,
    reduce_sum,
    remainder,
    reverse,
    rint,
    round_half_away,
    scatter,
    select,
    sqrt,
    store_masked,
    subtract_saturating,
    transpose,
    trunc,
)
from afterglow.backends.cpu.llvm.emitter.narrow import FORMATS
from afterglow.backends.cpu.target import NAMED
from afterglow.types.dtype import f32, f64, i8, i16, i32, u8
from tests.backends.cpu.llvm.emitter.example_kernels import axpy, matmul_tiles, softmax_rows

LIBRARY = re.compile(
    r"\b(floor|ceil|trunc|rint|nearbyint|round|roundeven|fma|fmin|fmax|sqrt|exp|log|sin|cos)f?\b"
)
CALL = re.compile(r"^\s+(?:callq?|bl|blx|jal|tail)\s+(.*)$", re.MULTILINE)

each_target = pytest.mark.parametrize("name", NAMED)


def calls(module: Module) -> list[str]:
    """The calls of C's library in the code."""
    found: list[str] = CALL.findall(assembly(module, module.target))
    return [call for call in found if LIBRARY.search(call)]


def floats(x: Pointer, lanes: int) -> Value:
    a, b = x.load(0, lanes), x.load(lanes, lanes)
    total = fma(a, b, copy_sign(a, b)) + maximum(a, b) / minimum(a, 2.0) - absolute(sqrt(b))
    for rounded in (rint, floor, ceil, trunc, round_half_away):
        total = total + rounded(a)
    return select(total > 1.0, reverse(total), reduce_sum(total) + reduce_max(a))


def integers(x: Pointer, lanes: int) -> Value:
    a, b = x.load(0, lanes), x.load(lanes, lanes)
    total = add_saturating(a, b) ^ subtract_saturating(a, b) | (a << 1) & (b >> 2)
    low, high = deinterleave(interleave(total, leading_zeros(a)))
    return low + remainder(high, 3)


@each_target
@pytest.mark.parametrize(
    ("write", "dtype"),
    [(floats, f32), (floats, f64), (integers, i8), (integers, i16), (integers, i32)],
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_arithmetic(name: str, write: Callable[[Pointer, int], Value], dtype: object) -> None:
    target = Target.of(name)
    if dtype is f64 and not target.double_precision:
        pytest.skip("f64 is computed by routines there")
    module = Module(target)
    with module.function("f") as e:
        x = e.pointer("x", dtype)  # type: ignore[arg-type]
        for lanes in {1, 4, e.lanes(x.dtype)}:
            x.store(write(x, lanes))
    verify_module(module, target)
    assert not calls(module)


@each_target
def test_conversions(name: str) -> None:
    module = Module(Target.of(name))
    with module.function("f") as e:
        x, lanes = e.pointer("x", f32), e.lanes(f32)
        for dtype in (*FORMATS, i8, u8, i16, i32):
            place = e.pointer(f"y_{dtype}", dtype)
            place.store(convert(x.load(0, lanes), dtype, saturate=True))
            x.store(convert(place.load(lanes, lanes), f32), lanes)
    verify_module(module, module.target)
    assert "__" not in "".join(calls(module))
    assert not re.search(r"__(extendhf|truncsf|gnu_[fh]2)", assembly(module, module.target))


@each_target
def test_memory(name: str) -> None:
    module = Module(Target.of(name))
    with module.function("f") as e:
        x, places, n = e.pointer("x", f32), e.pointer("places", i32), e.count("n")
        where, mask = places.load(0, 4), first_lanes(n, 4)
        scatter(x, load_masked(x, mask), where, mask)
        store_masked(x, gather(x, where, mask), mask)
        for row in transpose([x.load(4 * row, 4) for row in range(4)]):
            x.store(row)
        x.prefetch(64)
    verify_module(module, module.target)
    assert not calls(module)


@each_target
@pytest.mark.parametrize(
    "write",
    [axpy, lambda e: matmul_tiles(e, 4, 2, 16), lambda e: softmax_rows(e, 64)],
    ids=["axpy", "matmul", "softmax"],
)
def test_examples(name: str, write: Callable[[Emitter], None]) -> None:
    module = Module(Target.of(name))
    with module.function("f") as e:
        write(e)
    verify_module(module, module.target)
    assert not calls(module)
