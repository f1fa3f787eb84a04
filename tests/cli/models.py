"""Small models for the tests of the command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Declared = tuple[str, int, Sequence[int | str]]


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Declared],
    outputs: Sequence[Declared],
    weights: dict[str, np.ndarray] | None = None,
    domains: Sequence[str] = (),
) -> str:
    """Write a model of version 17, unchecked, and return its path."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(*declared) for declared in inputs],
        [helper.make_tensor_value_info(*declared) for declared in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tests")
    onnx.save(model, path)
    return str(path)


def parts(folder: Path) -> str:
    """A sequence of the columns of x."""
    graph = helper.make_graph(
        [helper.make_node("SplitToSequence", ["x"], ["y"], axis=1)],
        "small",
        [helper.make_tensor_value_info("x", FLOAT, (2, 3))],
        [helper.make_tensor_sequence_value_info("y", FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "parts.onnx")
    return str(folder / "parts.onnx")


def look_up(folder: Path) -> str:
    """Two elements of x, which has three."""
    return save(
        folder / "look.onnx",
        [helper.make_node("Gather", ["x", "i"], ["y"], name="look")],
        [("x", FLOAT, (3,)), ("i", INT64, (2,))],
        [("y", FLOAT, (2,))],
    )


def linear(folder: Path) -> str:
    """y = relu(x @ w), with a batch of 2."""
    return save(
        folder / "linear.onnx",
        [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="first"),
            helper.make_node("Relu", ["product"], ["y"], name="second"),
        ],
        [("x", FLOAT, (2, 3))],
        [("y", FLOAT, (2, 4))],
        {"w": np.arange(12, dtype=np.float32).reshape(3, 4) - 5},
    )


def batched(folder: Path) -> str:
    """total = a + b, both with a free dimension called batch."""
    return save(
        folder / "batched.onnx",
        [helper.make_node("Add", ["a", "b"], ["total"], name="sum")],
        [("a", FLOAT, ("batch", 3)), ("b", FLOAT, ("batch", 3))],
        [("total", FLOAT, ("batch", 3))],
    )


def grown(folder: Path) -> str:
    """present = past and behind it x; most = the largest elements of its rows."""
    return save(
        folder / "grown.onnx",
        [
            helper.make_node("Concat", ["past", "x"], ["present"], axis=0),
            helper.make_node("ReduceMax", ["present"], ["most"], axes=[0]),
        ],
        [("x", FLOAT, (1, "width")), ("past", FLOAT, ("past", "width"))],
        [("most", FLOAT, (1, "width")), ("present", FLOAT, ("total", "width"))],
    )


def lookup(folder: Path) -> str:
    """Rows of a table of four, by index."""
    return save(
        folder / "lookup.onnx",
        [helper.make_node("Gather", ["table", "index"], ["row"], name="look")],
        [("index", INT64, (5,))],
        [("row", FLOAT, (5, 2))],
        {"table": np.arange(8, dtype=np.float32).reshape(4, 2)},
    )


def shaped(folder: Path) -> str:
    """y = reshape(x, shape), where the shape is an input."""
    return save(
        folder / "shaped.onnx",
        [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")],
        [("x", FLOAT, (6,)), ("shape", INT64, (2,))],
        [("y", FLOAT, ("rows", "columns"))],
    )


def mixed(folder: Path) -> str:
    """A chain of nodes with different fates, whose output is declared wrongly."""
    return save(
        folder / "mixed.onnx",
        [
            helper.make_node("Exp", ["x"], ["a"], name="first"),
            helper.make_node("Det", ["a"], ["b"], name="second"),
            helper.make_node("Shape", ["flat"], ["shape"], name="third"),
            helper.make_node("Reshape", ["b", "shape"], ["y"], name="fourth"),
        ],
        [("x", FLOAT, (5, 2, 2))],
        [("y", FLOAT, (7,))],
        {"flat": np.zeros((1, 5), np.float32)},
    )


def places(folder: Path) -> str:
    """Where x is not zero, doubled."""
    return save(
        folder / "places.onnx",
        [
            helper.make_node("Relu", ["x"], ["positive"], name="cut"),
            helper.make_node("NonZero", ["positive"], ["index"], name="where"),
            helper.make_node("Add", ["index", "index"], ["y"], name="double"),
        ],
        [("x", FLOAT, (2, 3))],
        [("y", INT64, (2, "count"))],
    )


def strange(folder: Path) -> str:
    """Two nodes of a domain that nobody knows."""
    return save(
        folder / "strange.onnx",
        [
            helper.make_node("Frobnicate", ["x"], ["y"], name="frob", domain="example.com"),
            helper.make_node("Twiddle", ["x"], ["z"], name="twid", domain="example.com"),
        ],
        [("x", FLOAT, (2,))],
        [("y", FLOAT, (2,)), ("z", FLOAT, (2,))],
        domains=["example.com"],
    )


def texts(folder: Path) -> str:
    """Joins texts, and doubles numbers."""
    graph = helper.make_graph(
        [
            helper.make_node("StringConcat", ["first", "second"], ["joined"], name="join"),
            helper.make_node("Add", ["x", "x"], ["y"], name="double"),
        ],
        "small",
        [
            helper.make_tensor_value_info("first", TensorProto.STRING, (2,)),
            helper.make_tensor_value_info("second", TensorProto.STRING, (2,)),
            helper.make_tensor_value_info("x", FLOAT, (3,)),
        ],
        [
            helper.make_tensor_value_info("joined", TensorProto.STRING, (2,)),
            helper.make_tensor_value_info("y", FLOAT, (3,)),
        ],
    )
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "texts.onnx")
    return str(folder / "texts.onnx")


def external(folder: Path, location: str) -> str:
    """The same as `linear`, with the weights in a file of their own."""
    model = onnx.load(linear(folder))
    onnx.save(
        model,
        folder / "linear.onnx",
        save_as_external_data=True,
        location=location,
        size_threshold=0,
    )
    return str(folder / "linear.onnx")


def zipped(folder: Path) -> str:
    """A classifier that gives a map of probabilities for each row."""
    ml = "ai.onnx.ml"
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "probabilities"],
            domain=ml,
            coefficients=[1.0, 2.0, 3.0, -1.0, -2.0, -3.0],
            intercepts=[0.0, 0.0],
            classlabels_ints=[0, 1],
            post_transform="SOFTMAX",
        ),
        helper.make_node(
            "ZipMap", ["probabilities"], ["maps"], domain=ml, classlabels_int64s=[0, 1]
        ),
    ]
    scalar = helper.make_tensor_type_proto(FLOAT, [])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(INT64, scalar))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", FLOAT, (2, 3))],
        [helper.make_tensor_value_info("label", INT64, (2,)), helper.make_value_info("maps", maps)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ml, 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "zipped.onnx")
    return str(folder / "zipped.onnx")


def highest(folder: Path) -> str:
    """The largest elements of all rows so far: `past` and a new one, with a weight for each."""
    nodes = [
        helper.make_node("Concat", ["past.rows", "row"], ["present.rows"], axis=0),
        helper.make_node("Mul", ["present.rows", "weight"], ["weighted"]),
        helper.make_node("ReduceMax", ["weighted"], ["highest"], axes=[0]),
    ]
    inputs = [("row", FLOAT, (1, 3)), ("past.rows", FLOAT, ("past", 3))]
    outputs = [("present.rows", FLOAT, ("total", 3)), ("highest", FLOAT, (1, 3))]
    weight = ("weight", FLOAT, ("past + 1", 1))
    return save(folder / "highest.onnx", nodes, [*inputs, weight], outputs)
