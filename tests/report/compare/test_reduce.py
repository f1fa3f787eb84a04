from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow as ag
from afterglow.support.errors import UsageError
from tests.report.compare.planted import (
    WEIGHTS,
    network,
    plant_code,
    plant_pass,
    wrong_if_fused,
    wrong_root,
)


def test_a_changed_weight_is_reduced_to_the_node_that_reads_it(tmp_path: Path) -> None:
    other = network(w2=WEIGHTS["w2"] * 2)
    report = ag.compare(network(), other, reduce=tmp_path / "small.onnx")
    assert report.reduced.nodes == ("second (MatMul)",)
    small = onnx.load(tmp_path / "small.onnx")
    onnx.checker.check_model(small)
    again = ag.compare(
        tmp_path / "small.onnx",
        tmp_path / "small.expected.npz",
        dict(np.load(tmp_path / "small.npz")),
    )
    assert [tensor.name for tensor in again.differing] == ["mixed"]


@pytest.mark.parametrize(
    ("rule", "nodes"),
    [(wrong_root, ("root (Sqrt)",)), (wrong_if_fused, ("grow (Exp)", "turn (Neg)"))],
)
def test_a_wrong_pass_is_reduced_to_what_it_matches(tmp_path, monkeypatch, rule, nodes) -> None:
    plant_pass(monkeypatch, rule)
    path = tmp_path / "small.onnx"
    report = ag.compare(network(), "interpreter", reduce=path)
    assert report.reduced.nodes == nodes
    assert report.reduced.command == (
        f"afterglow compare {path} --ref interpreter --input {tmp_path / 'small.npz'}"
    )
    inputs = dict(np.load(tmp_path / "small.npz"))
    assert not ag.compare(path, "interpreter", inputs).agrees
    assert not ag.compare(path, "onnxruntime", inputs).agrees


def test_wrong_code_is_reduced(tmp_path: Path, monkeypatch) -> None:
    plant_code(monkeypatch)
    report = ag.compare(network(), "onnxruntime", reduce=tmp_path / "small.onnx", cache=False)
    assert report.reduced.nodes == ("grow (Exp)",)


def test_what_a_dump_lacks_stays_in_the_reduced_model(tmp_path: Path) -> None:
    x = np.ones((4, 8), np.float32)
    bent = np.tanh(x @ WEIGHTS["w1"])
    ref = {"x": x, "bent": bent, "grown": np.zeros((4, 8), np.float32)}
    report = ag.compare(network(), ref, reduce=tmp_path / "small.onnx")
    assert report.reduced.nodes == ("measure (Abs)", "lift (Add)", "root (Sqrt)", "grow (Exp)")
    assert {*np.load(tmp_path / "small.npz")} == {"bent"}


def test_a_function_judges_what_is_left_out(tmp_path: Path) -> None:
    other = network(w1=-WEIGHTS["w1"], w2=WEIGHTS["w2"] * 2)

    def check(actual: np.ndarray, expected: np.ndarray, name: str) -> bool:
        return name not in ("mixed", "sum") or np.allclose(actual, expected)

    report = ag.compare(network(), other, check=check, reduce=tmp_path / "small.onnx")
    assert report.reduced.nodes == ("second (MatMul)",)


def test_the_model_itself_is_not_written_to_a_missing_folder(tmp_path: Path) -> None:
    other = network(w2=WEIGHTS["w2"] * 2)
    with pytest.raises(UsageError, match="cannot write"):
        ag.compare(network(), other, reduce=tmp_path / "nowhere" / "small.onnx")
