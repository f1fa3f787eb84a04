"""Nodes with too few operands, or operands that do not fit together."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto

from afterglow.support.errors import AfterglowError, ModelError
from tests.errors.malformed import Cases, Made, check
from tests.frontends.models import info, model, node

CASES = Cases()
refused = CASES.refused


@refused(
    ModelError,
    """
    error: it takes 3 values for each tensor, and has 0 in all
      in node 'step' (Adagrad of ai.onnx.preview.training version 1)
    """,
)
def an_optimizer_without_tensors() -> onnx.ModelProto:
    step = node("Adagrad", ["x"], ["y"], name="step", domain="ai.onnx.preview.training")
    return model([step], domains={"ai.onnx.preview.training": 1})


@refused(
    ModelError,
    """
    error: u8[3] has no axis -2 for the zero points u8[2]
      in node 'product' (MatMulInteger of ai.onnx version 17)
    """,
)
def zero_points_along_an_axis_that_is_not_there() -> onnx.ModelProto:
    byte = TensorProto.UINT8
    product = node("MatMulInteger", ["a", "b", "zeros"], ["y"], name="product")
    return model(
        [product],
        inputs=[info("a", (3,), byte), info("b", (3, 2), byte), info("zeros", (2,), byte)],
        outputs=[info("y", (2,), TensorProto.INT32)],
    )


@pytest.mark.parametrize(("make", "kind", "text"), CASES)
def test_refused(make: Made, kind: type[AfterglowError], text: str) -> None:
    check(make(), kind, text)
