"""Recurrent layers, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterglow.ops.recurrent import LSTM
from tests.effort import calls
from tests.frontends.onnx.against_runtime import check_node

STEPS, BATCH, INPUTS, WIDTH = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENGTHS = np.array([5, 2, 3], np.int32)
each_layer = pytest.mark.parametrize("op_type", GATES)
each_direction = pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])


def check_layer(
    op_type: str,
    direction: str = "forward",
    *,
    bias: bool = False,
    lengths: np.ndarray | None = None,
    initial: bool = False,
    peepholes: bool = False,
    **attributes: Any,
) -> None:
    rng = np.random.default_rng(3)
    gates, directions = GATES[op_type], 2 if direction == "bidirectional" else 1

    def floats(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    state = (directions, BATCH, WIDTH)
    inputs = [
        floats(STEPS, BATCH, INPUTS),
        floats(directions, gates * WIDTH, INPUTS),
        floats(directions, gates * WIDTH, WIDTH),
        floats(directions, 2 * gates * WIDTH) if bias else None,
        lengths,
        floats(*state) if initial else None,
    ]
    if op_type == "LSTM":
        inputs += [floats(*state) if initial else None]
        inputs += [floats(directions, 3 * WIDTH) if peepholes else None]
    while inputs[-1] is None:
        inputs.pop()
    check_node(
        op_type,
        *inputs,
        outputs=3 if op_type == "LSTM" else 2,
        direction=direction,
        hidden_size=WIDTH,
        **attributes,
    )


@each_layer
@each_direction
def test_layers(op_type: str, direction: str) -> None:
    check_layer(op_type, direction)
    check_layer(op_type, direction, bias=True, initial=True)
    check_layer(op_type, direction, bias=True, initial=True, clip=0.4)


@each_layer
@each_direction
def test_sequences_of_several_lengths(op_type: str, direction: str) -> None:
    check_layer(op_type, direction, bias=True, initial=True, lengths=LENGTHS)


@each_direction
def test_gru_resets_after_the_product(direction: str) -> None:
    check_layer("GRU", direction, bias=True, linear_before_reset=1)
    check_layer("GRU", direction, linear_before_reset=1)


@each_direction
def test_lstm_sees_its_cell(direction: str) -> None:
    check_layer("LSTM", direction, bias=True, initial=True, peepholes=True)
    check_layer("LSTM", direction, bias=True, initial=True, input_forget=1)


@pytest.mark.parametrize(
    "name", ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus"]
)
def test_activations(name: str) -> None:
    check_layer("RNN", activations=[name])


@pytest.mark.parametrize(
    "name", ["Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"]
)
def test_activations_with_parameters(name: str) -> None:
    check_layer("RNN", activations=[name], activation_alpha=[0.3], activation_beta=[0.6])


def test_parameters_go_to_the_activations_that_have_them() -> None:
    names = ["Sigmoid", "LeakyRelu", "Tanh", "HardSigmoid", "Tanh", "ScaledTanh"]
    parameters = {"activation_alpha": [0.3, 0.25, 1.2], "activation_beta": [0.4, 0.7]}
    check_layer("LSTM", "bidirectional", activations=names, **parameters)


def test_a_long_lstm_multiplies_matrices_rather_than_elements() -> None:
    rng = np.random.default_rng(1)
    x, weight, recurrence = (
        rng.uniform(-0.1, 0.1, shape).astype(np.float32)
        for shape in ((64, 1, 32), (128, 32), (128, 32))
    )
    assert calls(lambda: LSTM().evaluate(x, weight, recurrence)) < 64 * 100  # a step's few
