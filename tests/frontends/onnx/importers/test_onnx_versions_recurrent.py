"""Recurrent layers where versions of ONNX differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterglow.testing.cases.case import f32
from afterglow.types import TensorType
from tests.frontends.onnx.one_node import Form, check, each_form, form

STEPS, BATCH, INPUTS, WIDTH = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENGTHS = np.array([5, 2, 3], np.int32)
each_layer = pytest.mark.parametrize("op", GATES)


def layer(op: str, version: int, *extras: str, direction: str = "forward", **rest: Any) -> Form:
    """A layer with those extra operands that are named."""
    count, gates = (2 if direction == "bidirectional" else 1), GATES[op]
    x, state = f32(STEPS, BATCH, INPUTS), f32(count, BATCH, WIDTH)
    if rest.get("layout"):
        x, state = f32(BATCH, STEPS, INPUTS), f32(BATCH, count, WIDTH)
    inputs: list[TensorType | np.ndarray | None] = [
        x,
        f32(count, gates * WIDTH, INPUTS),
        f32(count, gates * WIDTH, WIDTH),
        f32(count, 2 * gates * WIDTH) if "bias" in extras else None,
        LENGTHS if "lengths" in extras else None,
        state if "initial" in extras else None,
    ]
    if op == "LSTM":
        inputs.append(state if "initial" in extras else None)
        inputs.append(f32(count, 3 * WIDTH) if "peepholes" in extras else None)
    while inputs[-1] is None:
        inputs.pop()
    rest = {"outputs": 3 if op == "LSTM" else 2, "low": -1, "high": 1, **rest}
    (made,) = form(op, version, *inputs, direction=direction, hidden_size=WIDTH, **rest)
    return made


@each_layer
@pytest.mark.parametrize("version", [7, 14, 22])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_versions_and_directions(op: str, version: int, direction: str) -> None:
    check(layer(op, version, direction=direction))
    check(layer(op, version, "bias", "lengths", "initial", direction=direction))


@each_layer
@pytest.mark.parametrize("extras", [(), ("bias", "initial")])
@pytest.mark.parametrize("layout", [0, 1])
def test_the_batch_may_come_first(op: str, layout: int, extras: tuple[str, ...]) -> None:
    check(layer(op, 14, *extras, layout=layout))


@each_layer
@pytest.mark.parametrize("outputs", [(True,), (False, True), (True, True)])
def test_outputs_may_be_left_out(op: str, outputs: tuple[bool, ...]) -> None:
    check(layer(op, 14, "bias", outputs=outputs))
    check(layer(op, 14, direction="bidirectional", outputs=outputs))


@each_layer
def test_values_before_activations_may_be_clipped(op: str) -> None:
    check(layer(op, 7, "bias", clip=0.3))


@each_form(
    *(
        [layer("GRU", version, "bias", "lengths", linear_before_reset=1, direction=direction)]
        for version in (7, 22)
        for direction in ("forward", "bidirectional")
    ),
    [layer("GRU", 14, linear_before_reset=1)],
    [layer("LSTM", 7, "peepholes")],
    [layer("LSTM", 14, "bias", "peepholes", "initial", direction="bidirectional")],
    [layer("LSTM", 14, "bias", "peepholes", "lengths", direction="reverse")],
    [layer("LSTM", 7, "bias", input_forget=1)],
    [layer("LSTM", 14, activations=["HardSigmoid", "Relu", "Softsign"])],
    [
        layer(
            "RNN",
            14,
            activations=["Relu", "Affine"],
            activation_alpha=[0.5],
            activation_beta=[0.1],
            direction="bidirectional",
        )
    ],
    [layer("GRU", 14, activations=["Sigmoid", "LeakyRelu"], activation_alpha=[0.2])],
)
def test_variants_of_layers(form: Form) -> None:
    check(form)
