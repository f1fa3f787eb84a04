"""The text of kernels: no device is needed."""

from __future__ import annotations

import pytest

from afterglow.backends.opencl.clc import Code, Pointer, Value
from afterglow.backends.opencl.clc.types import literal
from afterglow.backends.pointwise import compute
from afterglow.backends.pointwise.vocabulary import select
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.types.dtype import bf16, boolean, f16, f32, f64, i8, i32, i64, u64


@pytest.mark.parametrize(
    ("dtype", "number", "text"),
    [
        (f32, 0.1, "0x1.99999a0000000p-4f"),
        (f64, -0.5, "(-0x1.0000000000000p-1)"),
        (f32, float("inf"), "as_float(0x7f800000u)"),
        (i32, -(2**31), "((int)0x80000000u)"),
        (i64, -7, "(-7l)"),
        (u64, 2**63, "9223372036854775808ul"),
        (i8, 3, "((char)3)"),
        (bf16, 1.0, "((ushort)16256)"),
    ],
)
def test_numbers_are_written_exactly(dtype, number, text):
    assert literal(dtype, number) == text


def test_signed_integers_wrap_around_by_way_of_unsigned_ones():
    code = Code()
    x = Pointer(code, i32, "x").load()
    x * 3 + x
    assert code.lines == [
        "  const int v1 = x[0];",
        "  const int v2 = (int)((uint)v1 * (uint)3);",
        "  const int v3 = (int)((uint)v2 + (uint)v1);",
    ]


def test_indices_need_no_names_and_fold():
    code = Code()
    item = code.work_item()
    assert (item * 4 + 0 + 3).text == "((v1 * 4) + 3)"
    assert (code.index(2) * 3).constant == 6


def test_an_expression_is_the_one_that_the_cpu_has():
    code = Code()
    x = Pointer(code, f32, "x").load(0, 8)
    compute(Relu(), f32, [x])
    assert code.lines == [
        "  const float8 v1 = vload8(0, x + 0);",
        "  const int8 v2 = (float8)(0x0.0p+0f) > v1;",
        "  const float8 v3 = v2 ? (float8)(0x0.0p+0f) : v1;",
    ]


def test_floats_of_16_bits_are_computed_as_f32_and_rounded_once():
    code = Code()
    x = Pointer(code, bf16, "x").load()
    compute(Add(), bf16, [x, x])
    assert code.lines[-1] == "  const ushort v5 = to_bf16(v4);"
    assert list(code.helpers) == ["from_bf16", "to_bf16"]


def test_floats_of_16_bits_become_f32_as_they_are_read_and_are_rounded_as_they_are_written():
    code = Code()
    half, brain = Pointer(code, f16, "x").numbers, Pointer(code, bf16, "y").numbers
    half.store(half.load(0, 8))
    brain.store(brain.load(0, 2))
    half.load_where(Value(code, boolean, 1, "c"), code.index(3))
    assert code.lines == [
        "  const float8 v1 = vload_half8(0, (__global half*)(x + 0));",
        "  vstore_half8_rte(v1, 0, (__global half*)(x + 0));",
        "  const ushort2 v2 = vload2(0, y + 0);",
        "  const float2 v3 = from_bf16_2(v2);",
        "  const ushort2 v4 = to_bf16_2(v3);",
        "  vstore2(v4, 0, y + 0);",
        "  const float v5 = c ? vload_half(0, (__global half*)(x + 3)) : 0x0.0p+0f;",
    ]


def test_floats_of_16_bits_are_converted_by_integers_where_functions_are_called():
    code = Code(inlines=False)
    x = Pointer(code, f16, "x").numbers
    x.store(x.load_where(Value(code, boolean, 1, "c"), code.index(3)))
    assert code.lines == [
        "  const ushort v1 = c ? x[3] : ((ushort)0);",
        "  const float v2 = from_f16(v1);",
        "  const ushort v3 = to_f16(v2);",
        "  x[0] = v3;",
    ]


def test_a_condition_is_as_wide_as_what_it_selects():
    code = Code()
    x = Pointer(code, f64, "x").load(0, 4)
    select(x > 0.0, x, 0.0)
    assert code.lines[1:] == [
        "  const int4 v2 = convert_int4(v1 > (double4)(0x0.0p+0));",
        "  const double4 v3 = convert_long4(v2) ? v1 : (double4)(0x0.0p+0);",
    ]


def test_booleans_are_bytes_in_memory_and_masks_in_vectors():
    code = Code()
    x = Pointer(code, boolean, "x")
    x.store(~x.load(0, 4))
    assert code.lines == [
        "  const int4 v1 = convert_int4(vload4(0, x + 0)) != 0;",
        "  const int4 v2 = v1 ^ (int4)(-1);",
        "  vstore4(convert_uchar4(v2 & 1), 0, x + 0);",
    ]


def test_types_that_kernels_do_not_compute_with_are_refused():
    x = Pointer(Code(), bf16, "x").load()
    with pytest.raises(TypeError, match=r"bf16 has no operator \+: convert it first"):
        x + x


def test_shared_memory_of_no_elements_has_one():
    code = Code()
    code.shared(f32, 0)
    assert code.lines == ["  __local float shared1[1];"]


def test_vectors_are_read_and_written_in_place_where_functions_are_not_inlined():
    code = Code(inlines=False)
    x = Pointer(code, f32, "x")
    x.store(x.load(8, 4), 2)
    assert list(code.helpers.values()) == [
        "typedef float4 near_float4 __attribute__((aligned(4)));"
    ]
    assert code.lines == [
        "  const float4 v1 = *(__global near_float4*)(x + 8);",
        "  *(__global near_float4*)(x + 2) = v1;",
    ]
