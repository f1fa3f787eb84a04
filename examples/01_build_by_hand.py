"""Lesson 1: build a network by hand, print it, run it, and compare it with NumPy."""

from __future__ import annotations

import numpy as np

import afterglow as ag
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.softmax import Softmax
from afterglow.types.dtype import f32


def build(weights: dict[str, np.ndarray]) -> ag.Module:
    """Two linear layers: 4 numbers in, the probabilities of 3 classes out."""
    function = ag.Function("main")
    b = ag.Builder(function)

    # An input is a placeholder with an exact type: element type and shape.
    x = function.input("x", ag.TensorType(f32, (2, 4)))

    # A weight is a constant. The module owns it, and the optimiser knows its value.
    w1, b1, w2, b2 = (b.constant(array, name) for name, array in weights.items())

    # `emit` applies an op to values. The type of the result is inferred, and checked at once.
    hidden = b.emit(Relu(), b.emit(Add(), b.emit(MatMul(), x, w1), b1), name="hidden")
    logits = b.emit(Add(), b.emit(MatMul(), hidden, w2), b2, name="logits")
    function.output("probabilities", b.emit(Softmax(axis=1), logits, name="probabilities"))
    return function.module


def with_numpy(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """The same network in NumPy."""
    hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0)
    exponentials = np.exp(hidden @ weights["w2"] + weights["b2"])
    return exponentials / exponentials.sum(1, keepdims=True)


def main() -> None:
    random = np.random.default_rng(0)
    shapes = {"w1": (4, 8), "b1": (8,), "w2": (8, 3), "b2": (3,)}
    weights = {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}

    module = build(weights)
    print(ag.print_module(module))

    model = ag.compile(module)
    x = random.standard_normal((2, 4)).astype(np.float32)
    probabilities = model(x)
    print("probabilities:\n", probabilities)
    print("largest difference from NumPy:", np.abs(probabilities - with_numpy(weights, x)).max())

    # An error is raised where the mistake is made, and the message shows the program around it.
    try:
        b = ag.Builder(module.main)
        b.emit(MatMul(), module.main.inputs[0], module.main.outputs[0].value, name="wrong")
    except ag.AfterglowError as error:
        print(f"\n{error}")


if __name__ == "__main__":
    main()
