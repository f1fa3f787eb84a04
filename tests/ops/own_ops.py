"""What tests of users' own ops share: declarations that last for one test."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper

import afterglow as ag
from afterglow.graph import OPS
from afterglow.support.own_ops import remove_own_op
from afterglow.types import TensorType
from afterglow.types.dtype import f32

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def forget_own_ops() -> Iterator[None]:
    """Remove what a test has declared: other tests look at all ops there are."""
    yield
    for name in [name for name in OPS if "::" in name]:
        forget(name)


def forget(name: str) -> None:
    """Remove a declaration."""
    del OPS[name]
    remove_own_op(name)


def module_with(op: ag.Op, count: int = 1, name: str = "y") -> ag.Module:
    """A module that applies an op to f32[2, 3] inputs."""
    function = ag.Function("main")
    inputs = [function.input(f"x{i}", TensorType(f32, (2, 3))) for i in range(count)]
    results = ag.Builder(function).emit_all(op, *inputs, name=name)
    for i, result in enumerate(results):
        function.output(f"y{i}", result)
    return function.module


def onnx_model(op_type: str, *, inputs: int = 1, **attributes: object) -> bytes:
    """A model with one node of the domain com.acme, on f32[2, 3] inputs."""
    names = [f"x{i}" for i in range(inputs)]
    node = helper.make_node(op_type, names, ["y"], "the node", domain="com.acme", **attributes)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in names]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", infos, [result])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.acme", 1)]
    made: bytes = helper.make_model(graph, opset_imports=opsets).SerializeToString()
    return made
