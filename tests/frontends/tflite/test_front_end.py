"""TFLite files and bytes, compiled."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

import afterglow as ag
from afterglow.frontends.registry import find_source
from afterglow.support.errors import UsageError
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


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("source", "translate", "tensors", "sparse", "reader", "options"):
        monkeypatch.delitem(sys.modules, f"afterglow.frontends.tflite.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(UsageError) as caught:
        find_source(_sum())
    assert str(caught.value) == (
        "error: reading TFLite models needs the package tflite\n"
        '  help: install it: pip install "afterglow[tflite]"'
    )


def test_a_saved_model_needs_no_file(tmp_path: Path) -> None:
    data = one_op("WHERE", [Tensor("x", (3,), "bool")], [Tensor("y", (), "int64")])
    path = tmp_path / "model.agc"
    x = np.array([True, False, True])
    model = ag.compile(data)
    model(x)
    model.save(path)
    np.testing.assert_array_equal(ag.load(path)(x), np.argwhere(x))
