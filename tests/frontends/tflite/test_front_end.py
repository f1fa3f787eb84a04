"""TFLite files and bytes, compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

import afterglow as ag
from tests.frontends.tflite.build import Tensor, constant, one_op


def _sum() -> bytes:
    return one_op(
        "ADD",
        [Tensor("x", (2, 3)), constant("one", np.ones(3, np.float32))],
        [Tensor("y", (2, 3))],
        "AddOptions",
        fused_activation_function=1,
    )


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(_sum())
    x = np.array([[-2, 0, 2], [1, -1, 3]], np.float32)
    model = ag.compile(path)
    np.testing.assert_array_equal(model(x=x), np.maximum(x + 1, 0))
    np.testing.assert_array_equal(ag.compile(path.read_bytes())(x=x), np.maximum(x + 1, 0))
