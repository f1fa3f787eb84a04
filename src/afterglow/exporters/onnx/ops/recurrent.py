"""Recurrent layers: one direction each, so that ONNX's have an axis of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.exporters.onnx.layouts import plain
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.frontends.onnx.importers.recurrent import ACTIVATIONS
from afterglow.ops.recurrent import GRU, LSTM, RNN, Recurrent
from afterglow.types.dtype import i32


@exports(RNN)
def rnn(n: NodeWriter) -> Sequence[str]:
    """One gate."""
    layer = _Layer(n)
    inputs = [*layer.weights(), layer.bias(3), layer.lengths(4), layer.apart(5)]
    return layer.results("RNN", inputs, 2)


@exports(GRU)
def gru(n: NodeWriter) -> Sequence[str]:
    """The bias of the recurrence stays apart."""
    layer = _Layer(n)
    inputs = [*layer.weights(), layer.bias(3, 4), layer.lengths(5), layer.apart(6)]
    linear = int(n.op.linear_before_reset)
    return layer.results("GRU", inputs, 2, linear_before_reset=linear)


@exports(LSTM)
def lstm(n: NodeWriter) -> Sequence[str]:
    """Two states, and peepholes."""
    layer = _Layer(n)
    states = [layer.apart(index) for index in (5, 6, 7)]
    inputs = [*layer.weights(), layer.bias(3), layer.lengths(4), *states]
    return layer.results("LSTM", inputs, 3, input_forget=int(n.op.input_forget))


class _Layer:
    """One layer, whose operands get an axis for the directions."""

    def __init__(self, n: NodeWriter) -> None:
        self.n = n
        self.width = n.type(2).shape[-1]

    def weights(self) -> list[str]:
        """The sequence, and both matrices."""
        return [self.n.operand(0, plain(3)), self.apart(1), self.apart(2)]

    def apart(self, index: int) -> str:
        """An operand with an axis in front."""
        value = self.n.value(index)
        if value is None:
            return ""
        name = self.n.operand(index, plain(value.type.rank))
        wide = self.n.as_type(name, value.type.dtype, self.n.type(0).dtype)
        return self.n.emit("Unsqueeze", wide, self.n.integers(0))

    def bias(self, index: int, hidden: int | None = None) -> str:
        """The bias of the inputs, and that of the recurrence, which is zeros but for a last part.

        Ours has those of a GRU's last gate only, and all others added up.
        """
        n = self.n
        own = n.operand(index, (0,)) if n.value(index) is not None else ""
        last = n.operand(hidden, (0,)) if hidden is not None and n.value(hidden) else ""
        if not own and not last:
            return ""
        gates = n.type(2).shape[0]
        zeros = self._zeros(gates)
        other = zeros
        if last:
            other = n.emit("Concat", self._zeros(gates - self.width), last, axis=0)
        joined = n.emit("Concat", own or zeros, other, axis=0)
        return n.emit("Unsqueeze", joined, n.integers(0))

    def _zeros(self, count: int) -> str:
        return self.n.constant(np.zeros(count, self.n.type(0).dtype.numpy))

    def lengths(self, index: int) -> str:
        """The lengths of sequences, which ONNX has as i32."""
        value = self.n.value(index)
        if value is None:
            return ""
        return self.n.as_type(self.n.operand(index, plain(1)), value.type.dtype, i32)

    def results(
        self, op_type: str, inputs: Sequence[str], outputs: int, **attributes: Any
    ) -> list[str]:
        """The node, and its results without the axis of directions."""
        n, op = self.n, self.n.op
        words, alphas, betas = _activations(op)
        y, *states = n.emit_all(
            op_type,
            inputs,
            outputs,
            hidden_size=self.width,
            direction="reverse" if op.reverse else "forward",
            activations=words,
            activation_alpha=alphas or None,
            activation_beta=betas or None,
            clip=op.clip,
            **attributes,
        )
        squeezed = [n.emit("Squeeze", y, n.integers(1))]
        return [*squeezed, *(n.emit("Squeeze", state, n.integers(0)) for state in states)]


_KNOWN = {activation: parameters for activation, *parameters in ACTIVATIONS.values()}
"""The defaults of alpha and beta, for activations that have them."""


def _activations(op: Recurrent) -> tuple[list[str], list[float], list[float]]:
    """ONNX's words, and the alphas and betas of those activations that have any."""
    words = ["".join(map(str.capitalize, each.value.split("_"))) for each in op.activations]
    alphas = zip(op.activations, op.alphas, strict=True)
    betas = zip(op.activations, op.betas, strict=True)
    return (
        words,
        [alpha for each, alpha in alphas if _KNOWN[each][0] is not None],
        [beta for each, beta in betas if _KNOWN[each][1] is not None],
    )
