"""Samples of what layers read: outputs that return it, and the moments of many runs.

As observers do, it adds outputs to a function; a `InputSampler` takes what the runs return. It
holds no more rows of a layer than it must, evenly spread over all runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Function, Node, Op
from afterglow.quantization.layers import input_rows
from afterglow.quantization.points import is_anchor
from afterglow.quantization.round_weights import second_moments
from afterglow.types import Array

MOST_ROWS = 2048
"""Rows that are held of what a layer reads."""


def add_input_outputs(function: Function, most_rows: int = MOST_ROWS) -> InputSampler:
    """Add outputs, after a function's own, that return what its layers read."""
    sampler = InputSampler([node for node in function.nodes if is_anchor(node)], most_rows)
    values = {node.operands[0]: None for node in sampler.layers}
    for name, value in zip(sampler.output_names, values, strict=True):
        assert value is not None
        function.output(name, value)
    return sampler


class InputSampler:
    """Rows that layers read, as samples of all runs."""

    def __init__(self, layers: Sequence[Node], most_rows: int = MOST_ROWS) -> None:
        self.layers = layers
        values = list(dict.fromkeys(node.operands[0] for node in layers))
        self.output_names = [f"\0read {value.name}" for value in values if value is not None]
        self._places = [values.index(node.operands[0]) for node in layers]
        self._rows = {node.name: _Rows(node.op, _weight_shape(node), most_rows) for node in layers}

    def add(self, outputs: Sequence[Array]) -> None:
        """Add what one run returned, in the order of `output_names`."""
        for node, place in zip(self.layers, self._places, strict=True):
            self._rows[node.name].add(outputs[place])

    def rows(self, layer: str) -> Array:
        """Rows that a layer read, [groups, samples, depth]."""
        return np.concatenate(self._rows[layer].parts, 1)

    def moments(self, layer: str) -> Array:
        """E[x xT] of the rows that a layer read, [groups, depth, depth]."""
        return np.stack([second_moments(group) for group in self.rows(layer)])


class _Rows:
    """Rows of one layer: where there are too many, every second one is dropped."""

    def __init__(self, op: Op, weight: tuple[int, ...], most: int) -> None:
        self.op = op
        self.weight = weight
        self.most = most
        self.share = most
        """How many rows a run adds at most."""
        self.parts: list[Array] = []

    def add(self, x: Array) -> None:
        self.parts.append(np.array(input_rows(self.op, self.weight, x, self.share)))
        while sum(part.shape[1] for part in self.parts) > self.most:
            self.parts = [part[:, ::2].copy() for part in self.parts]
            self.share = max(1, self.share // 2)
            if all(part.shape[1] == 1 for part in self.parts):
                self.parts = self.parts[-self.most :]


def _weight_shape(node: Node) -> tuple[int, ...]:
    weight = node.operands[1]
    assert weight is not None
    return weight.type.shape
