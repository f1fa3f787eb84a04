"""Custom ops of TFLite that users have declared."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

import afterglow as ag
from tests.frontends.tflite.build import Tensor, one_op
from tests.frontends.tflite.test_flexbuffer import OPTIONS
from tests.ops.own_ops import forget_own_ops

__all__ = ["forget_own_ops"]


def test_a_custom_op_is_the_one_bound_to_it() -> None:
    @ag.op("acme::swirl", tflite="Swirl")
    class Swirl(ag.Op):
        rate: float = 1.0
        often: int = 1
        back: bool = False
        name: str = ""
        sizes: tuple[int, ...] = ()

        def infer(self, x):
            return x

        def evaluate(self, x):
            return x * np.float32(self.rate * self.often)

    data = one_op("Swirl", [Tensor("x", (2, 3))], [Tensor("y", (2, 3))], custom=OPTIONS)
    (node,) = ag.import_model(data).main.nodes
    assert node.op == Swirl(0.5, -3, True, "left", (1, 2, 300))
