"""Gradient nodes that cannot be imported."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.frontends.definition import frame
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from tests.errors.malformed import Cases, Made, check
from tests.frontends.models import BOOL, INT64, body, info, model, node

DOMAIN = "ai.onnx.preview.training"
CASES = Cases()
refused = CASES.refused
SQUARE = node("Mul", ["x", "x"], ["s"])


def gradient(inputs: list[str], **attributes: object) -> onnx.NodeProto:
    return node("Gradient", inputs, ["y"], name="slope", domain=DOMAIN, **attributes)


def made(*nodes: onnx.NodeProto, **parts: object) -> onnx.ModelProto:
    return model(nodes, domains={DOMAIN: 1}, **parts)


@refused(
    ModelError,
    """
    error: attribute 'xs' is missing
      in node 'slope' (Gradient of ai.onnx.preview.training version 1)
    """,
)
def nothing_to_differentiate_by() -> onnx.ModelProto:
    return made(SQUARE, gradient(["x"], y="s"))


@refused(
    ModelError,
    """
    error: 'xs' and 'zs' name 2 tensors, but it has 1 inputs
      in node 'slope' (Gradient of ai.onnx.preview.training version 1)
      help: the inputs are the values of the tensors in 'xs', then of those in 'zs'
    """,
)
def a_value_that_is_missing() -> onnx.ModelProto:
    return made(SQUARE, gradient(["x"], xs=["x"], zs=["s"], y="s"))


@refused(
    ModelError,
    """
    error: 'xs' and 'zs' name a tensor twice: x, x
      in node 'slope' (Gradient of ai.onnx.preview.training version 1)
    """,
)
def a_variable_that_is_named_twice() -> onnx.ModelProto:
    return made(SQUARE, gradient(["x", "x"], xs=["x"], zs=["x"], y="s"))


@refused(
    ModelError,
    """
    error: the name 'odd' is not defined
      in node 'slope' (Gradient of ai.onnx.preview.training version 1)
    """,
)
def a_name_that_is_not_there() -> onnx.ModelProto:
    return made(SQUARE, gradient(["x"], xs=["x"], y="odd"))


@refused(
    ModelError,
    """
    error: 'x' is f32[2, 3], the value for it is f32[3]
      in node 'slope' (Gradient of ai.onnx.preview.training version 1)
    """,
)
def a_value_of_another_type() -> onnx.ModelProto:
    return made(SQUARE, gradient(["row"], xs=["x"], y="s"), inputs=["x", info("row", (3,))])


@refused(
    ModelError,
    """
    error: 'n' in 'y' is i64[2, 3]: only floats have a gradient
      in node 'slope' (Gradient of ai.onnx.preview.training version 1)
    """,
)
def a_gradient_of_integers() -> onnx.ModelProto:
    count = node("Cast", ["x"], ["n"], to=INT64)
    return made(count, gradient(["x"], xs=["x"], y="n"))


@refused(
    UnsupportedError,
    """
    error: loop has no gradient, as data decide how often it runs, and node 'repeat' needs one
      in node 'slope' (Gradient of ai.onnx.preview.training version 1)
          %x_1 = reshape(%x) {shape = (2, 3)} : f32[2, 3]
        > %s = loop(%n, @s, %x_1) {body = @s.body, carried = 1, iteration = 0, lengths = ()}
          on the path repeat <- x_1
      help: compute it from ops that have one, or differentiate only what comes after it
    """,
)
def an_op_without_gradient() -> onnx.ModelProto:
    step = body([node("Sin", ["h"], ["new"])], ["i", "go", "h"], ["go", "new"])
    repeat = node("Loop", ["n", "", "x"], ["s"], name="repeat", body=step)
    return made(repeat, gradient(["x"], xs=["x"], y="s"), inputs=["x", info("n", (), INT64)])


@refused(
    UnsupportedError,
    """
    error: 's' is not computed in the graph that the node is in
      in node 'slope' in then_branch of 'choose' (Gradient of ai.onnx.preview.training version 1)
    """,
)
def a_result_of_the_graph_around() -> onnx.ModelProto:
    slope = body([gradient(["x"], xs=["x"], y="s")], [], ["y"])
    same = body([node("Identity", ["x"], ["e"])], [], ["e"])
    choice = node("If", ["c"], ["out"], name="choose", then_branch=slope, else_branch=same)
    return made(SQUARE, choice, inputs=["x", info("c", (), BOOL)], outputs=["out"])


@refused(
    UnsupportedError,
    """
    error: 's' comes from outside of the body, and may depend on 'xs'
      in node 'slope' in then_branch of 'choose' (Gradient of ai.onnx.preview.training version 1)
      help: name it in 'zs' if it does not, or differentiate outside of the body
    """,
)
def a_step_of_the_graph_around() -> onnx.ModelProto:
    cube = node("Mul", ["x", "s"], ["cube"])
    slope = body([cube, gradient(["x"], xs=["x"], y="cube")], [], ["y"])
    same = body([node("Identity", ["x"], ["e"])], [], ["e"])
    choice = node("If", ["c"], ["out"], name="choose", then_branch=slope, else_branch=same)
    return made(SQUARE, choice, inputs=["x", info("c", (), BOOL)], outputs=["out"])


@refused(
    UnsupportedError,
    """
    error: the value of 'scales' must be known, but a Gradient differentiates by it
      in node 'wide' (Resize of ai.onnx version 17)
      help: leave it out of its 'xs', and feed it under its own name
    """,
)
def a_variable_that_decides_shapes() -> onnx.ModelProto:
    resize = node("Resize", ["x", "", "scales"], ["s"], name="wide")
    slope = gradient(["scales"], xs=["scales"], y="s")
    return made(resize, slope, constants={"scales": np.array([1, 2], np.float32)})


@pytest.mark.parametrize(("make", "kind", "text"), CASES)
def test_the_model_is_refused(make: Made, kind: type[AfterglowError], text: str) -> None:
    check(make(), kind, text)


def test_data_that_decide_shapes_on_the_way() -> None:
    """The places of the non-zero elements cut the model in two, between `x` and `s`."""
    nodes = [
        node("Mul", ["x", "x"], ["h"]),
        node("NonZero", ["h"], ["places"]),
        node("Transpose", ["places"], ["tuples"]),
        node("GatherND", ["h", "tuples"], ["s"]),
        gradient(["x"], xs=["x"], y="s"),
    ]
    compiled = afterglow.compile(made(*nodes), backend="interpreter")
    with pytest.raises(UnsupportedError, match="shapes between 'xs' and 'y' depend on data"):
        compiled(np.ones((2, 3), np.float32))


def test_gradients_of_gradients_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each order has several times as many nodes as the one before."""
    monkeypatch.setattr(frame, "MOST_EXPANDED", 1000)
    nodes = [node("Tanh", ["x"], ["d0"])]
    for order in range(60):
        nodes.append(gradient(["x"], xs=["x"], y=f"d{order}"))
        nodes[-1].output[0] = f"d{order + 1}"
    text = "error: the model unfolds into more than 1,000 nodes"
    check(made(*nodes, outputs=["d60"]), UnsupportedError, text)
