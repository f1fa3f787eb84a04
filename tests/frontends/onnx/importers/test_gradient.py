"""ONNX's Gradient: what it names, where it is evaluated, of any order, on every backend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.frontends.onnx import import_onnx
from afterglow.graph import run_function, verify_module
from afterglow.types import Array
from tests.frontends.models import BOOL, FLOAT, INT64, body, info, model, node

DOMAIN = "ai.onnx.preview.training"
X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)
Z = np.array([[2.0, 3.0, -1.0], [0.5, -2.0, 1.0]], np.float32)


def gradient(
    outputs: Sequence[str],
    xs: Sequence[str],
    y: str,
    zs: Sequence[str] = (),
    at: Sequence[str] = (),
) -> onnx.NodeProto:
    """A node that differentiates `y`, at the tensors themselves or at the values of others."""
    names = [*xs, *zs]
    held = {"zs": list(zs)} if zs else {}
    return node("Gradient", list(at) or names, outputs, xs=list(xs), y=y, domain=DOMAIN, **held)


def made(nodes: Sequence[onnx.NodeProto], **parts: object) -> onnx.ModelProto:
    return model(nodes, domains={DOMAIN: 1}, **parts)


def run(made: onnx.ModelProto, *inputs: Array) -> tuple[Array, ...]:
    module = import_onnx(made)
    verify_module(module)
    return run_function(module.main, inputs)


AS_IN_PYTORCH = [4.873939, 0.8347496, 0.2411594]
"""The losses that PyTorch's own gradients lead to in the last test."""
CUBE = [node("Mul", ["x", "x"], ["square"]), node("Mul", ["square", "x"], ["cube"])]


def test_derivatives_of_the_first_three_orders() -> None:
    orders = [
        gradient(["first"], ["x"], "cube"),
        gradient(["second"], ["x"], "first"),
        gradient(["third"], ["x"], "second"),
    ]
    got = run(made([*CUBE, *orders], outputs=["first", "second", "third"]), X)
    for have, want in zip(got, (3 * X**2, 6 * X, np.full_like(X, 6)), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6)


def test_mixed_second_derivatives_as_the_standard_shows_them() -> None:
    """O is a loss of X W and L, whose gradients by X and W are differentiated again."""
    nodes = [
        node("MatMul", ["X", "W"], ["Y"]),
        node("Sub", ["Y", "L"], ["difference"]),
        node("ReduceSumSquare", ["difference"], ["O"], keepdims=0),
        gradient(["dX", "dW"], ["X", "W"], "O", zs=["L"]),
        gradient(["dXdW", "dWdW"], ["X", "W"], "dW", zs=["L"]),
    ]
    inputs = [info("X", (2, 3)), info("W", (3, 1)), info("L", (2, 1))]
    outputs = [info("dW", (3, 1)), info("dXdW", (2, 3)), info("dWdW", (3, 1))]
    w, labels = X[:1].T.copy(), Z[:, :1].copy()
    dw, mixed, twice = run(made(nodes, inputs=inputs, outputs=outputs), X, w, labels)
    np.testing.assert_allclose(dw, 2 * X.T @ (X @ w - labels), rtol=1e-5)
    np.testing.assert_allclose(twice, 2 * X.T @ X @ np.ones((3, 1)), rtol=1e-5)
    by_x = 2 * (X @ w - labels) + 2 * X.sum(1, keepdims=True) * w.T
    np.testing.assert_allclose(mixed, by_x, rtol=1e-5)


def test_constants_are_variables_too() -> None:
    nodes = [
        node("Mul", ["w", "w"], ["square"]),
        node("Mul", ["square", "c"], ["product"]),
        gradient(["d"], ["w"], "product"),
        node("Add", ["d", "x"], ["y"]),
    ]
    (y,) = run(made(nodes, constants={"w": X, "c": Z}), np.zeros_like(X))
    np.testing.assert_allclose(y, 2 * X * Z)


def test_bounds_that_are_variables_are_not_taken_for_attributes() -> None:
    nodes = [node("Clip", ["x", "low"], ["z"]), gradient(["y"], ["low"], "z", zs=["x"])]
    outputs = [info("y", ())]
    (y,) = run(made(nodes, constants={"low": np.float32(0.3)}, outputs=outputs), X)
    assert y == (X < 0.3).sum()


def test_other_values_can_be_put_for_the_variables() -> None:
    nodes = [
        node("Exp", ["x"], ["h"]),
        node("Mul", ["h", "z"], ["product"]),
        node("Sin", ["product"], ["s"]),
        gradient(["dh", "dz"], ["h", "z"], "s", at=["x", "x"]),
        gradient(["dx"], ["x"], "s", zs=["z"], at=["z", "x"]),
    ]
    got = run(made(nodes, inputs=["x", "z"], outputs=["dh", "dz", "dx"]), X, Z)
    at_x, at_z = X * np.cos(X * X), np.exp(Z) * X * np.cos(np.exp(Z) * X)
    for have, want in zip(got, (at_x, at_x, at_z), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_a_tensor_with_two_names_is_two_variables() -> None:
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Mul", ["x", "same"], ["product"]),
        gradient(["first", ""], ["x", "same"], "product"),
        gradient(["y"], ["x"], "product"),
    ]
    got = run(made(nodes, outputs=["first", "y"]), X)
    np.testing.assert_allclose(got, (X, 2 * X))


def test_what_is_held_leads_nowhere() -> None:
    nodes = [*CUBE, gradient(["y"], ["x"], "cube", zs=["square"])]
    np.testing.assert_allclose(run(made(nodes), X)[0], X**2)


def test_a_tensor_that_does_not_depend_on_a_variable_has_a_gradient_of_zeros() -> None:
    nodes = [*CUBE, gradient(["y"], ["z"], "cube", zs=["x"])]
    np.testing.assert_array_equal(run(made(nodes, inputs=["x", "z"]), X, Z)[0], np.zeros_like(Z))


def test_outputs_may_be_left_out() -> None:
    nodes = [node("Mul", ["x", "z"], ["p"]), gradient(["", "y"], ["x", "z"], "p")]
    np.testing.assert_array_equal(run(made(nodes, inputs=["x", "z"]), X, Z)[0], X)


def test_the_order_in_the_file_does_not_matter() -> None:
    np.testing.assert_allclose(
        run(made([gradient(["y"], ["x"], "cube"), *CUBE]), X)[0], 3 * X**2, rtol=1e-6
    )


def test_integers_cut_the_way() -> None:
    nodes = [
        node("ArgMax", ["x"], ["i"], axis=1),
        node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["x", "f"], ["p"]),
        gradient(["y"], ["x"], "p"),
    ]
    want = np.broadcast_to(X.argmax(1)[:, None], X.shape)
    np.testing.assert_array_equal(run(made(nodes), X)[0], want)


def test_the_mask_of_a_dropout_is_the_same() -> None:
    constants = {"ratio": np.float32(0.5), "training": np.array(True)}
    nodes = [
        node("Dropout", ["x", "ratio", "training"], ["kept"], seed=3),
        gradient(["d"], ["x"], "kept"),
    ]
    graph = made(nodes, constants=constants, outputs=["kept", "d"])
    for backend in ("interpreter", "cpu"):
        kept, d = afterglow.compile(graph, backend=backend).run(None, {"x": X})
        np.testing.assert_allclose(kept, d * X)
        assert 0 < (d == 0).sum() < d.size


def test_in_a_function_of_the_model() -> None:
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(DOMAIN, 1)]
    slope = onnx.helper.make_function(
        "acme", "Slope", ["x"], ["d"], [*CUBE, gradient(["d"], ["x"], "cube")], opsets
    )
    call = node("Slope", ["x"], ["y"], domain="acme")
    graph = model([call], domains={DOMAIN: 1, "acme": 1}, functions=[slope])
    np.testing.assert_allclose(run(graph, X)[0], 3 * X**2, rtol=1e-6)


def test_in_a_branch() -> None:
    slope = body([*CUBE, gradient(["d"], ["x"], "cube")], [], ["d"])
    same = body([node("Identity", ["x"], ["e"])], [], ["e"])
    choice = node("If", ["c"], ["y"], then_branch=slope, else_branch=same)
    graph = made([choice], inputs=["x", info("c", (), BOOL)])
    np.testing.assert_allclose(run(graph, X, np.array(True))[0], 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(run(graph, X, np.array(False))[0], X)


@pytest.mark.parametrize("backend", ["interpreter", "primitives", "cpu"])
@pytest.mark.parametrize("optimize", [True, False])
def test_steps_down_the_gradient_lower_the_loss(backend: str, optimize: bool) -> None:
    """A small network of convolution, normalization, pooling and a product, three steps."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.normal(0, 0.5, (4, 2, 3, 3)),
        "scale": np.ones(4),
        "shift": np.zeros(4),
        "mean": np.zeros(4),
        "variance": np.ones(4),
        "w2": rng.normal(0, 0.5, (16, 3)),
    }
    values = {name: array.astype(np.float32) for name, array in weights.items()}
    trained = ["w1", "scale", "shift", "w2"]
    nodes = [
        node("Conv", ["x", "w1"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p"], ["f"]),
        node("MatMul", ["f", "w2"], ["s"]),
        node("SoftmaxCrossEntropyLoss", ["s", "labels"], ["loss"]),
        gradient([f"d.{name}" for name in trained], trained, "loss", zs=["x", "labels"]),
        *(node("Mul", [f"d.{name}", "rate"], [f"step.{name}"]) for name in trained),
        *(node("Sub", [name, f"step.{name}"], [f"new.{name}"]) for name in trained),
    ]
    values |= {
        "x": rng.normal(size=(2, 2, 4, 4)).astype(np.float32),
        "labels": np.array([0, 2]),
        "rate": np.array(0.1, np.float32),
    }
    kinds = {name: INT64 if name == "labels" else FLOAT for name in values}
    graph = made(
        nodes,
        inputs=[info(name, array.shape, kinds[name]) for name, array in values.items()],
        outputs=[info("loss", ()), *(info(f"new.{n}", values[n].shape) for n in trained)],
    )
    compiled = afterglow.compile(graph, backend=backend, optimize=optimize, verify=True)
    losses = []
    for _ in range(3):
        loss, *news = compiled.run(None, values)
        losses.append(float(loss))
        values |= zip(trained, news, strict=True)
    np.testing.assert_allclose(losses, AS_IN_PYTORCH, rtol=1e-4)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_descent_in_a_loop(backend: str) -> None:
    """Five steps from x towards the least of (x - z)²."""
    step = body(
        [
            node("Sub", ["w", "z"], ["difference"]),
            node("Mul", ["difference", "difference"], ["loss"]),
            gradient(["d"], ["w"], "loss", zs=["z"]),
            node("Mul", ["d", "rate"], ["scaled"]),
            node("Sub", ["w", "scaled"], ["new"]),
            node("Identity", ["go"], ["on"]),
        ],
        [info("i", (), INT64), info("go", (), BOOL), "w"],
        ["on", "new"],
        {"rate": np.float32(0.25)},
    )
    loop = node("Loop", ["five", "", "x"], ["y"], body=step)
    graph = made([loop], inputs=["x", "z"], constants={"five": np.array(5)})
    got = afterglow.compile(graph, backend=backend)(X, Z)
    np.testing.assert_allclose(got, Z + (X - Z) / 32, rtol=1e-5)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_beside_shapes_that_data_decide(backend: str) -> None:
    nodes = [
        *CUBE,
        gradient(["slope"], ["x"], "cube"),
        node("NonZero", ["slope"], ["places"]),
        node("Transpose", ["places"], ["tuples"]),
        node("GatherND", ["cube", "tuples"], ["z"]),
        gradient(["y", "dw"], ["z", "w"], "s"),
        node("Neg", ["w"], ["less"]),
        node("Mul", ["z", "less"], ["s"]),
    ]
    outputs = ["slope", info("y", [None]), info("dw", ())]
    graph = made(nodes, outputs=outputs, constants={"w": np.float32(2)})
    compiled = afterglow.compile(graph, backend=backend)
    for x in (X * (X > 0), Z * (Z > 0)):
        slope, y, dw = compiled.run(None, {"x": x})
        np.testing.assert_allclose(slope, 3 * x**2, rtol=1e-6)
        np.testing.assert_allclose(y, np.full((x > 0).sum(), -2.0))
        np.testing.assert_allclose(dw, -(x**3).sum(), rtol=1e-6)
