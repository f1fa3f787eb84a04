"""Fewer conversions."""

import pytest

from afterglow.transforms.casts import SIMPLIFY_CASTS, loses_nothing
from afterglow.types.dtype import DTYPES
from tests.transforms.rewriting import check_declines, check_rewrites


def test_a_cast_to_its_own_type_goes() -> None:
    check_rewrites(
        SIMPLIFY_CASTS,
        before="""
            func @main(%x: f32[2]) {
              %s = cast(%x) {dtype = f32, saturate = true, round_mode = up} : f32[2]
              %r = exp(%s) : f32[2]
              return %r
            }
        """,
        after="""
            func @main(%x: f32[2]) {
              %r = exp(%x) : f32[2]
              return %r
            }
        """,
    )


def test_a_cast_by_way_of_a_wider_type_is_one_cast() -> None:
    check_rewrites(
        SIMPLIFY_CASTS,
        before="""
            func @main(%x: u8[2]) {
              %s = cast(%x) {dtype = i64, saturate = true, round_mode = up} : i64[2]
              %r = cast(%s) {dtype = f32, saturate = true, round_mode = up} : f32[2]
              return %r
            }
        """,
        after="""
            func @main(%x: u8[2]) {
              %r = cast(%x) {dtype = f32, saturate = true, round_mode = up} : f32[2]
              return %r
            }
        """,
    )


def test_there_and_back_is_nothing() -> None:
    check_rewrites(
        SIMPLIFY_CASTS,
        before="""
            func @main(%x: f16[2]) {
              %s = cast(%x) {dtype = f32, saturate = true, round_mode = up} : f32[2]
              %t = cast(%s) {dtype = f16, saturate = true, round_mode = up} : f16[2]
              %r = exp(%t) : f16[2]
              return %r
            }
        """,
        after="""
            func @main(%x: f16[2]) {
              %r = exp(%x) : f16[2]
              return %r
            }
        """,
    )


@pytest.mark.parametrize(
    ("source", "middle", "target"),
    [
        ("f32", "f16", "f32"),  # rounds
        ("f32", "i32", "f32"),  # drops the fraction
        ("i64", "f64", "i64"),  # rounds large numbers
        ("i32", "f32", "i32"),
        ("i8", "u16", "i8"),  # has no negative numbers
        ("u8", "i8", "u8"),  # wraps around
        ("f32", "bool", "f32"),
        ("f16", "bf16", "f16"),
        ("i8", "i64", "str"),  # a text shows the type
        ("bool", "f32", "str"),
    ],
)
def test_a_cast_that_loses_something_stays(source: str, middle: str, target: str) -> None:
    rest = "saturate = true, round_mode = up"
    check_declines(
        SIMPLIFY_CASTS,
        f"""
        func @main(%x: {source}[2]) {{
          %s = cast(%x) {{dtype = {middle}, {rest}}} : {middle}[2]
          %r = cast(%s) {{dtype = {target}, {rest}}} : {target}[2]
          return %r
        }}
        """,
    )


def test_what_loses_nothing() -> None:
    names = ["bool", "i4", "u8", "i8", "i32", "i64", "u64", "f8e5m2", "f16", "bf16", "f32", "f64"]
    kept = {
        source: [t for t in names if t != source and loses_nothing(DTYPES[source], DTYPES[t])]
        for source in names
    }
    assert kept == {
        "bool": [name for name in names if name != "bool"],
        "i4": ["i8", "i32", "i64", "f16", "bf16", "f32", "f64"],
        "u8": ["i32", "i64", "u64", "f16", "bf16", "f32", "f64"],
        "i8": ["i32", "i64", "f16", "bf16", "f32", "f64"],
        "i32": ["i64", "f64"],
        "i64": [],
        "u64": [],
        "f8e5m2": ["f32", "f64"],
        "f16": ["f32", "f64"],
        "bf16": ["f32", "f64"],
        "f32": ["f64"],
        "f64": [],
    }
