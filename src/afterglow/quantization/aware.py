"""Quantization-aware training: a function of floats that computes what integers would give.

Where conversion stores integers there are fake quantizations, through which gradients pass. Once
the function has learnt, they become quantizations, and its products products of integers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from afterglow.graph import Builder, Function, Node, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Abs, Max, Mul, scalar
from afterglow.ops.fake_quantize import FakeQuantize
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceMax
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.convert import Convert, column_axis
from afterglow.quantization.observation import Observation
from afterglow.quantization.scheme import LEAST_SCALE
from afterglow.support.errors import UsageError
from afterglow.types import DType
from afterglow.types.dtype import i8


class MakeAware(Convert):
    """Values that were observed, and weights of products, go through fake quantizations.

    The ranges of values are those of the profile; with `learn` they are constants with one axis,
    which train as weights do. Those of weights follow the weights.
    """

    name = "fake-quantize"

    def __init__(
        self,
        observations: Mapping[str, Observation],
        config: QuantizationConfig,
        *,
        learn: bool = True,
    ) -> None:
        for field in ("integer_only", "quantized_io"):
            if getattr(config, field):
                raise UsageError(
                    f"quantization-aware training does not take {field}",
                    help="train without it, and quantize the trained model with it",
                )
        super().__init__(observations, config)
        self.learn = learn
        self._stored: dict[str, tuple[Value, Value]] = {}
        """Scale and zero point by the point that they are observed of."""
        self._begin: Node | None = None
        """What was the first node: scales, and inputs that go through integers, come before it."""

    def store(self, function: Function) -> bool:
        """Let readers of points see what integers would stand for."""
        self._begin = next(function.nodes, None)
        return super().store(function)

    def store_value(
        self,
        function: Function,
        value: Value,
        readers: list[tuple[Node, int]],
        source: str,
        dtype: DType,
    ) -> Value:
        """Let readers see what integers would stand for."""
        if source not in self._stored:
            self._stored[source] = self._declare(function, source, dtype)
        first = self._begin if value.producer is None else value.producer.after
        b = Builder(function, first, name=f"{value.name}.quantized")
        axis = max(0, value.type.rank - 1)
        seen = b.emit(FakeQuantize(axis, dtype, learns=self.learn), value, *self._stored[source])
        for node, index in readers:
            node.set_operand(index, seen)
            if isinstance(node.op, (Conv, MatMul)):
                _round_weight(function, node)
        return seen

    def _declare(self, function: Function, source: str, dtype: DType) -> tuple[Value, Value]:
        """Scale and zero point of a point, as constants."""
        chosen = self.parameters(source, dtype)
        b = Builder(function, self._begin)
        zero = b.constant(np.array(chosen.offsets[0], dtype.numpy), f"{source}.zero")
        scale = np.array(chosen.scales, np.float32)
        if not self.learn:
            return b.constant(scale[0], f"{source}.scale"), zero
        return b.emit(Reshape(()), b.constant(scale, f"{source}.scale")), zero


def _round_weight(function: Function, anchor: Node) -> None:
    """Let a product read what bytes of its weight would stand for, with a scale for each column."""
    weight = anchor.operands[1]
    assert weight is not None
    b = Builder(function, anchor, name=f"{weight.name}.quantized", origins=anchor.origins)
    axis = column_axis(anchor)
    others = tuple(place for place in range(weight.type.rank) if place != axis)
    reach = b.emit(ReduceMax(others, keepdims=False), b.emit(Abs(), weight))
    steps = b.emit(Mul(), reach, scalar(b, 1 / i8.limits[1], reach))
    scale = b.emit(Max(), steps, scalar(b, LEAST_SCALE, steps))
    anchor.set_operand(1, b.emit(FakeQuantize(axis, i8), weight, scale))
