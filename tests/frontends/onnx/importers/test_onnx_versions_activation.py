"""Activations where versions of ONNX differ."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.testing.cases.case import f16, f32, f64, i8, i32, i64
from tests.frontends.onnx.one_node import Form, check, each_form, fed, form, giving, scalar

X = f32(2, 3, 4)
SPECIAL = np.array([-np.inf, -90, -1, -0.0, 0, 1, 90, np.inf, np.nan], np.float32)


@each_form(
    form("Relu", (1, 6, 13, 14), X),
    form("Relu", 14, np.array([-3, 0, 5], np.int32)),
    form("Sigmoid", (1, 6, 13), X),
    form("LeakyRelu", (1, 6, 16), X),
    form("LeakyRelu", (6, 16), X, alpha=0.3),
    form("Elu", (1, 6, 22), X, alpha=0.7),
    form("HardSigmoid", (1, 6, 22), X),
    form("HardSigmoid", 6, X, alpha=0.4, beta=0.3),
    form("HardSwish", (14, 22), X, low=-5, high=5),
    form("Celu", (12, 28), X, alpha=0.6),
    form("Celu", 28, f64(5)),
    form("Softplus", (1, 22), X),
    form("Softsign", (1, 22), X),
    form("ThresholdedRelu", (10, 22), X),
    form("ThresholdedRelu", 10, X, alpha=0.4),
    form("Mish", (18, 22), X),
    form("Gelu", 20, X),
    form("Gelu", 20, X, approximate="tanh"),
    form("Swish", 24, X, alpha=0.5),
    form("Shrink", 9, X, lambd=0.8, bias=0.3),
    form("Shrink", 9, i8(7), lambd=1.5, bias=1.0, low=-4, high=4),
)
def test_functions_of_one_operand(form: Form) -> None:
    check(form)


@each_form(
    form("Selu", (6, 22), X),
    form("Selu", 6, X, alpha=2.0, gamma=0.5),
    giving(
        lambda x: np.where(x > 0, 1.0507 * x, 1.0507 * 1.6732 * np.expm1(x)).astype(np.float32),
        form("Selu", 1, X),
    ),
)
def test_selu_had_less_exact_defaults(form: Form) -> None:
    check(form)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each_form(
    *(form(op, 13, SPECIAL) for op in ("Relu", "Sigmoid", "Tanh")),
    *(form(op, 6, SPECIAL) for op in ("LeakyRelu", "Elu", "Selu", "HardSigmoid")),
    *(form(op, 1, SPECIAL) for op in ("Softplus", "Softsign")),
    *(form(op, 22, SPECIAL[1:-2]) for op in ("HardSwish", "Mish")),
    *(form(op, 13, SPECIAL.astype(np.float16)) for op in ("Relu", "Sigmoid", "Tanh")),
)
def test_large_and_special_numbers(form: Form) -> None:
    check(form)


@each_form(
    giving(
        lambda x, slope: np.where(x < 0, slope[:, None] * x, x),
        form("PRelu", (1, 6), X, f32(3)),
    ),
    giving(lambda x, slope: np.where(x < 0, slope * x, x), form("PRelu", (1, 6), X, f32(1))),
    form("PRelu", (7, 9, 16), X, f32(3, 1)),
    form("PRelu", 7, X, f32(4)),
    form("PRelu", 9, X, f32()),
    form("PRelu", 16, f16(2, 3), f16(3)),
    giving(lambda x, slope: np.where(x < 0, slope * x, x), form("PRelu", 9, i32(2, 3), i32(3))),
)
def test_slopes_go_along_channels_before_version_7(form: Form) -> None:
    check(form)


@each_form(
    giving(lambda x: np.clip(x, -0.5, 1), form("Clip", 1, X, min=-0.5, max=1.0)),
    form("Clip", 6, X, min=-0.5, max=1.0),
    form("Clip", 6, X, max=1.0),
    form("Clip", 6, X),
    form("Clip", 6, X, min=1.0, max=-1.0),
    form("Clip", (11, 12, 13), X, scalar(-0.5), scalar(1)),
    form("Clip", 11, X, None, scalar(1)),
    form("Clip", 13, X, scalar(-0.5)),
    form("Clip", 13, X),
    form("Clip", 13, X, scalar(1), scalar(-1)),
    form("Clip", 13, SPECIAL, scalar(-1), scalar(1)),
    form("Clip", 12, i64(5), scalar(-1, np.int64), scalar(1, np.int64)),
    form("Clip", 13, i8(9), scalar(-3, np.int8), None, low=-9, high=9),
    form("Clip", 13, f16(9), scalar(-0.1, np.float16), scalar(1, np.float16)),
    fed(form("Clip", (11, 13), X, scalar(-0.5), scalar(1))),
    fed(form("Clip", 13, SPECIAL, scalar(1), scalar(-1))),
)
def test_bounds_are_attributes_then_inputs(form: Form) -> None:
    check(form)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@each_form(
    form("", (1, 11, 13), X),
    form("", (1, 13), X, axis=0),
    form("", (1, 11, 13), X, axis=2),
    form("", (11, 13), X, axis=-1),
    form("", (11, 13), X, axis=-2),
    form("", (11, 13), X, axis=-3),
    form("", 13, f32(5), axis=0),
    form("", (11, 13), f64(2, 3)),
    form("", (11, 13), f32(0, 3)),
    form("", 13, np.array([[800, 801, -800]], np.float32)),
    form("", 13, np.array([[2, 3, 3]], np.float32)),
)
def test_before_version_13_softmax_runs_over_all_axes_from_one_on(op: str, form: Form) -> None:
    check(Form(op, form.version, form.inputs, form.attributes))
