"""Lesson 10: ops of your own, in NumPy and as mathematics, in a model that uses them."""

from __future__ import annotations

import warnings

import numpy as np
from onnx import TensorProto, helper

import afterglow as ag

warnings.simplefilter("ignore", ag.AfterglowWarning)  # it says that the host runs acme::rank


# The least that an op needs is a function in NumPy: then the host runs it. Parameters by keyword
# are attributes. `onnx` says which nodes of models it is.
@ag.op("acme::rank", onnx="com.acme::Rank")
def rank(x: np.ndarray, *, descending: bool = False) -> np.ndarray:
    """The place of each element if its row were sorted."""
    places = np.argsort(np.argsort(-x if descending else x, axis=-1), axis=-1)
    return places.astype(np.float32)


# Written in index notation, an op is compiled. The ranges of indices follow from the shapes of the
# operands. The text gives the type rule, the gradient, and a kernel that fuses all of it.
distance = ag.op(
    "acme::distance",
    "d[i, j] = scale * sqrt(sum(k) (a[i, k] - b[j, k])**2)",
    attributes={"scale": 1.0},
    onnx="com.acme::Distance",
)


def model_file() -> bytes:
    """A model with nodes that only we know."""
    nodes = [
        helper.make_node("Distance", ["points", "centers"], ["d"], domain="com.acme", scale=2.0),
        helper.make_node("Rank", ["d"], ["order"], domain="com.acme"),
    ]
    shapes = {"points": [200, 16], "centers": [32, 16]}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    outputs = [helper.make_tensor_value_info("order", TensorProto.FLOAT, [200, 32])]
    graph = helper.make_graph(nodes, "nearest", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(graph, opset_imports=opsets).SerializeToString()


def main() -> None:
    random = np.random.default_rng(0)
    points, centers = (random.standard_normal((n, 16), np.float32) for n in (200, 32))
    model = ag.compile(model_file())
    print(model.ir())

    distances = 2 * np.linalg.norm(points[:, None] - centers[None], axis=-1)
    right = (model(points, centers).argmin(1) == distances.argmin(1)).mean()
    print(f"the nearest center is right for {right:.0%} of all points")

    # An op is a value: without a model, a module can be made of it at once.
    heat = ag.comprehension(
        "o[i, j] = x[i+1, j+1] + rate * (x[i, j+1] + x[i+2, j+1] + x[i+1, j] + x[i+1, j+2]"
        " - 4 * x[i+1, j+1])",
        rate=0.1,
    )
    step = ag.compile(heat.module({"x": (66, 66)}))
    print("one step leaves", step(np.ones((66, 66), np.float32)).shape, "elements")

    try:
        ag.comprehension("o[i] = sum(k) a[i, k] * b[l]")
    except ag.ParseError as error:
        print(error)


if __name__ == "__main__":
    main()
