"""What layers read on samples: outputs that return it, and the moments of many runs.

As observers do, it adds outputs to a function; an `InputSampler` takes what the runs return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from afterglow.graph import Function, Node, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.quantization.layers import input_rows
from afterglow.quantization.moments import MOST_BYTES, InputMoments, block_extent
from afterglow.quantization.points import is_anchor
from afterglow.support.errors import AfterglowError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.extent import is_ranged

MOST_ROWS = 512
"""Rows or windows of a layer's input that a run adds at most."""


class SampleError(AfterglowError):
    """What a layer reads cannot be used: a run computed NaN or an infinity for it."""


@dataclass
class LayerInputs:
    """The moments of what layers read, over all versions of a model."""

    moments: dict[str, InputMoments] = field(default_factory=dict)
    """By the names of layers; those that read the same share them."""
    most_bytes: int = MOST_BYTES
    most_rows: int = MOST_ROWS


def add_input_outputs(
    function: Function,
    inputs: LayerInputs,
    chosen: Callable[[Node], bool] = lambda node: True,
) -> InputSampler:
    """Add outputs, after a function's own, that return what its chosen layers read."""
    layers = [n for n in function.nodes if _has_moments(n) and chosen(n)]
    sampler = InputSampler(layers, inputs)
    for name, value in zip(sampler.output_names, sampler.values, strict=True):
        function.output(name, value)
    return sampler


class InputSampler:
    """Adds what the layers of one version of a model read to their moments."""

    def __init__(self, layers: Sequence[Node], inputs: LayerInputs) -> None:
        self.values = list(dict.fromkeys(map(_read, layers)))
        self.most_rows = inputs.most_rows
        self._readings = _readings(layers, inputs)

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs that return what layers read."""
        return [f"\0read {value.name}" for value in self.values]

    @property
    def outputs(self) -> int:
        """How many outputs there are."""
        return len(self.values)

    def add(self, outputs: Sequence[Array]) -> None:
        """Add what one run returned, in the order of `output_names`."""
        found = dict(zip(self.values, outputs, strict=True))
        for layer, moments in self._readings:
            x = found[_read(layer)]
            if not np.isfinite(x).all():
                raise SampleError(
                    "a layer reads NaN or infinity, by which no weights can be rounded",
                    where=f"in node {layer.origin!r}" if layer.origin else f"in %{layer.name}",
                    help="give samples that are like the inputs of later runs",
                )
            moments.add(input_rows(layer.op, _weight_shape(layer), x, self.most_rows))


def _readings(layers: Sequence[Node], inputs: LayerInputs) -> list[tuple[Node, InputMoments]]:
    """Layers that read different rows, each with the moments of these."""
    first: dict[object, Node] = {}
    for layer in layers:
        first.setdefault(_rows_key(layer), layer)
    extent = block_extent(map(_extents, first.values()), inputs.most_bytes)
    known: dict[object, InputMoments] = {}
    for layer in layers:
        key = _rows_key(layer)
        if key not in known:
            new = InputMoments(*_extents(layer), extent)
            known[key] = inputs.moments.get(layer.name, new)
        inputs.moments[layer.name] = known[key]
    return [(layer, known[key]) for key, layer in first.items()]


def _has_moments(node: Node) -> bool:
    """Whether what a node reads are rows that its constant weight multiplies."""
    if not is_anchor(node) or (isinstance(node.op, MatMul) and node.op.transpose_lhs):
        return False
    return not is_ranged(_read(node).type.shape[-1])


def _rows_key(layer: Node) -> object:
    """What is equal for layers that read the same rows."""
    op = layer.op if isinstance(layer.op, Conv) else None
    return _read(layer), op, *(_weight_shape(layer)[1:] if op else ())


def _extents(layer: Node) -> tuple[int, int]:
    """Groups, and the depth of rows."""
    shape = _weight_shape(layer)
    if isinstance(layer.op, Conv):
        return layer.op.groups, int(np.prod(shape[1:]))
    return 1, _read(layer).type.shape[-1]


def _read(layer: Node) -> Value:
    value = layer.operands[0]
    assert value is not None
    return value


def _weight_shape(layer: Node) -> tuple[int, ...]:
    weight = layer.operands[1]
    assert weight is not None
    return weight.type.shape
