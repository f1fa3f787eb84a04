"""One node of ai.onnx.ml through Afterglow and through ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import afterglow
from afterglow.types import Array

onnxruntime.set_default_logger_severity(4)


def ml_model(
    op_type: str, inputs: tuple[Array, ...], outputs: int, version: int, attributes: dict[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node, and what to feed it."""
    feed = {f"x{index}": array for index, array in enumerate(inputs)}
    names = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op_type, [*feed], names, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "ml",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in feed.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in names],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feed


def ml_run(
    op_type: str, *inputs: Array, outputs: int = 1, version: int = 3, **attributes: Any
) -> list[Any]:
    """What we compute, optimised and not: it must be the same."""
    model, feed = ml_model(op_type, inputs, outputs, version, attributes)
    got = afterglow.compile(model, verify=True).run(None, feed)
    for fast, plain in zip(
        got, afterglow.compile(model, optimize=False).run(None, feed), strict=True
    ):
        assert_same(fast, plain)
    return got


def ml_check(
    op_type: str, *inputs: Array, outputs: int = 1, version: int = 3, **attributes: Any
) -> list[Any]:
    """The same, which must be what ONNX Runtime computes."""
    model, feed = ml_model(op_type, inputs, outputs, version, attributes)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    got = ml_run(op_type, *inputs, outputs=outputs, version=version, **attributes)
    for ours, theirs in zip(got, session.run(None, feed), strict=True):
        assert_same(ours, theirs)
    return got


def assert_same(got: Any, want: Any) -> None:
    if isinstance(want, list):
        assert [row.keys() for row in got] == [row.keys() for row in want]
        got, want = (np.array([list(row.values()) for row in rows]) for rows in (got, want))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)
    else:
        np.testing.assert_array_equal(got, want)
