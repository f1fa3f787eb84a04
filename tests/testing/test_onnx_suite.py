"""ONNX's suite as the conformance kit has it."""

from __future__ import annotations

from afterglow.testing import onnx_suite


def test_every_gap_is_a_case() -> None:
    assert not onnx_suite.GAPS.keys() - set(onnx_suite.names())
    assert len(onnx_suite.GAPS) == 10
