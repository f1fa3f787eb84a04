"""DynamicQuantizeLSTM, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import afterglow as ag
from tests.frontends.onnx.against_runtime import MICROSOFT, check_node

INPUTS, HIDDEN, STEPS = 6, 20, 5
CONSTANTS = (1, 2, 3, 7, 8, 9, 10, 11)


def operands(
    batch: int = 1,
    directions: int = 1,
    dtype: type = np.uint8,
    *,
    per_channel: bool = False,
    point: int = 128,
) -> list[np.ndarray | None]:
    """The inputs of a node, without lengths, initial states and peepholes."""
    rng = np.random.default_rng(batch)
    gates = 4 * HIDDEN
    size = (directions, gates) if per_channel else (directions,)
    least = -64 if dtype is np.int8 else 64  # no processor saturates in ONNX Runtime's products
    w, r = (
        rng.integers(least, least + 128, (directions, depth, gates)).astype(dtype)
        for depth in (INPUTS, HIDDEN)
    )
    scales = [rng.uniform(0.002, 0.004, size).astype(np.float32) for _ in range(2)]
    zeros = [np.full(size, point, dtype) for _ in range(2)]
    x = rng.standard_normal((STEPS, batch, INPUTS)).astype(np.float32)
    bias = rng.uniform(-1, 1, (directions, 8 * HIDDEN)).astype(np.float32)
    return [x, w, r, bias, None, None, None, None, scales[0], zeros[0], scales[1], zeros[1]]


def check(given: list[np.ndarray | None], tolerance: float = 1e-5, **attributes: object) -> None:
    constants = tuple(index for index in CONSTANTS if given[index] is not None)
    check_node(
        "DynamicQuantizeLSTM",
        *given,
        domain=MICROSOFT,
        outputs=3,
        hidden_size=HIDDEN,
        constants=constants,
        tolerance=tolerance,
        **attributes,
    )


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("dtype", "point"), [(np.uint8, 128), (np.uint8, 120), (np.int8, 0)])
def test_kinds_of_weights(dtype: type, point: int, per_channel: bool) -> None:
    check(operands(dtype=dtype, point=point, per_channel=per_channel))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions(direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    check(operands(directions=directions, per_channel=True), direction=direction)


def test_initial_states() -> None:
    given = operands()
    given[5] = given[6] = np.linspace(-1, 1, HIDDEN, dtype=np.float32).reshape(1, 1, HIDDEN)
    check(given, clip=3.0)


def test_sequences_of_a_batch_have_ranges_of_their_own() -> None:
    given = operands(batch=3)
    given[4] = np.array([5, 2, 4], np.int32)
    check(given, tolerance=0.02)


def test_with_peepholes_weights_are_dequantized() -> None:
    given = operands()
    given[7] = np.full((1, 3 * HIDDEN), 0.25, np.float32)
    check(given, tolerance=0.03)


def test_the_layer_is_one_of_bytes() -> None:
    names = ["x", "w", "r", "b", "-", "-", "-", "-", "ws", "wz", "rs", "rz"]
    given = operands()
    node = onnx.helper.make_node(
        "DynamicQuantizeLSTM",
        ["" if array is None else name for name, array in zip(names, given, strict=True)],
        ["y"],
        domain=MICROSOFT,
        hidden_size=HIDDEN,
    )
    graph = onnx.helper.make_graph(
        [node],
        "layer",
        [onnx.helper.make_tensor_value_info("x", 1, (STEPS, 1, INPUTS))],
        [onnx.helper.make_tensor_value_info("y", 1, (STEPS, 1, 1, HIDDEN))],
        [
            onnx.numpy_helper.from_array(array, name)
            for name, array in zip(names[1:], given[1:], strict=True)
            if array is not None
        ],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(MICROSOFT, 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    text = ag.compile(model, cache=False).ir("graph")
    assert "quantized_lstm(" in text
    assert "quantized_matmul(" in text
