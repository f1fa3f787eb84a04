"""Casts, and ops that make tensors, where versions of ONNX differ."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from afterglow.testing.cases.case import boolean, f16, f32, f64, i32, i64
from tests.frontends.onnx.one_node import Form, check, const, each_form, fed, form, giving, scalar

FRACTIONS = np.array([-2.7, -1.0, -0.5, 0.0, 0.5, 1.5, 2.5, 200.7], np.float32)
SPECIAL = np.array([-np.inf, np.inf, np.nan, 1e30, -1e-30, 70000], np.float32)
NUMBERS = ("DOUBLE", "FLOAT16", "INT8", "INT32", "INT64", "BOOL")


def number(name: str) -> int:
    return TensorProto.DataType.Value(name)


@each_form(
    *(
        giving(lambda x, d=d: x.astype(d), form("Cast", 1, i32(2, 3), to=name, low=0))
        for name, d in [("FLOAT", np.float32), ("INT64", np.int64), ("BOOL", np.bool_)]
    ),
    *(form("Cast", (6, 9, 13, 19), FRACTIONS[:-1], to=number(name)) for name in NUMBERS),
    *(form("Cast", (21, 23, 24), FRACTIONS, to=number(n)) for n in ("FLOAT16", "UINT8", "INT16")),
    *(form("Cast", 13, i64(5), to=number(name), low=-300, high=300) for name in NUMBERS),
    *(form("Cast", 13, boolean(5), to=number(name)) for name in NUMBERS),
    *(form("Cast", 13, f64(5), to=number(name), low=0, high=9) for name in ("FLOAT", "UINT64")),
    *(form("Cast", 13, SPECIAL, to=number(name)) for name in ("FLOAT16", "BOOL", "DOUBLE")),
    form("Cast", 13, f16(5), to=number("FLOAT")),
    form("Cast", 13, f32(), to=number("INT64")),
    form("Cast", 13, f32(0, 2), to=number("INT64")),
    form("Cast", 13, f32(2), to=number("FLOAT")),
)
def test_casts_between_numbers(form: Form) -> None:
    check(form)


WORDS = np.array(["1.5", "-2", "3e2", "NaN", "-INF", "inf"], object)


@each_form(
    *(form("Cast", (9, 13), WORDS[:3], to=number(name)) for name in ("FLOAT", "DOUBLE")),
    form("Cast", 9, WORDS, to=number("FLOAT")),
    form("Cast", 13, np.array(["12", "-3"], object), to=number("INT64")),
    form("Cast", (9, 13), np.array([1.5, 1e10, 0.1], np.float32), to=8),
    form("Cast", 9, np.array([3, -7], np.int64), to=number("STRING")),
)
def test_casts_from_and_to_text(form: Form) -> None:
    check(form)


EIGHTHS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
RANGE = np.array([-1e6, -500, -300, -0.3, 0, 1e-4, 0.1, 448, 465, np.inf, np.nan], np.float32)


@each_form(
    *(
        form("Cast", (19, 23), RANGE, to=number(name), saturate=saturate)
        for name in EIGHTHS
        for saturate in (0, 1)
    ),
    form("Cast", 13, RANGE, to=number("BFLOAT16")),
    form("Cast", 21, np.array([-20, -8, -1.6, 0.5, 7, 30], np.float32), to=number("INT4")),
    form("Cast", 21, np.array([0, 1.5, 15, 14.7], np.float32), to=number("UINT4")),
    form("Cast", 23, np.array([-9, -0.3, 0.3, 1.2, 2.6, 9], np.float32), to=number("FLOAT4E2M1")),
    form("Cast", 19, np.array([1, -2], ml_dtypes.float8_e5m2), to=number("FLOAT")),
    form("CastLike", (15, 19), FRACTIONS, i32(1)),
    form("CastLike", 15, i64(3), f16(1)),
)
def test_casts_to_narrow_types(form: Form) -> None:
    check(form)


def tensor(*numbers: float, dtype: type = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.array(numbers, dtype))


@each_form(
    form("ConstantOfShape", (9, 20, 21), const(2, 3)),
    form("ConstantOfShape", 9, const(2, 3), value=tensor(3, dtype=np.int32)),
    form("ConstantOfShape", 9, const(2, 0), value=tensor(1)),
    form("ConstantOfShape", 9, const(), value=tensor(True, dtype=np.bool_)),
    fed(form("ConstantOfShape", 9, const(2, 3), value=tensor(2.5))),
    form("EyeLike", (9, 22), f32(3, 4)),
    form("EyeLike", 9, f32(3, 4), k=1, dtype=number("INT32")),
    form("EyeLike", 9, i32(3, 3), k=-2),
    form("EyeLike", 9, i32(2, 3), k=5, dtype=number("DOUBLE")),
    form("Range", 11, *(scalar(x) for x in (1.5, 0, -0.4))),
    form("Range", (11, 27), *(scalar(x, np.int64) for x in (3, 12, 4))),
    form("Range", 11, *(scalar(x, np.int32) for x in (3, 3, 1))),
    fed(form("Range", 11, *(scalar(x, np.int64) for x in (10, 0, -3)))),
    form("Range", 27, *(scalar(x, np.float16) for x in (0, 1, 0.1))),
)
def test_tensors_from_shapes_and_bounds(form: Form) -> None:
    check(form)


@each_form(
    form("Constant", (1, 9, 11, 13, 21), value=tensor(1, 2, 3)),
    form("Constant", 12, value_float=2.5),
    form("Constant", 12, value_floats=[1.0, 2.0]),
    form("Constant", 13, value_int=7),
    form("Constant", 13, value_ints=[7, 8]),
    form("Constant", 13, value_string="word"),
    form("Constant", 13, value_strings=["two", "words"]),
)
def test_constants(form: Form) -> None:
    check(form)


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@each_form(
    form("", 17, scalar(10, np.int64)),
    form("", 17, scalar(9, np.int32), periodic=0),
    form("", 17, scalar(10, np.int64), output_datatype=number("DOUBLE")),
)
def test_windows(op: str, form: Form) -> None:
    check(Form(op, form.version, form.inputs, form.attributes))
