"""Gains: products by a factor for each channel, where nothing else could scale the channels.

What a hard swish or a sigmoid computes does not scale with what it reads, but can be scaled
afterwards, in the same kernel.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.ops.elementwise import Mul
from afterglow.quantization.channels import fixed_values
from afterglow.quantization.points import is_anchor


def add_gains(function: Function, observed: Container[str]) -> dict[Node, Value]:
    """Multiply by ones what layers read and nothing scales, and what was multiplied."""
    candidates = [
        value
        for value in fixed_values(function)
        if value.producer is not None
        and value.producer.op.elementwise
        and value.name in observed
        and any(is_anchor(node) and place == 0 for node, place in value.uses)
    ]
    return {_add_gain(function, value): value for value in candidates}


def _add_gain(function: Function, value: Value) -> Node:
    assert value.producer is not None
    origins = value.producer.origins
    b = Builder(function, value.producer.after, name=f"{value.name}.scaled", origins=origins)
    ones = b.constant(np.ones(value.type.shape[-1], np.float32), f"{value.name}.gain")
    readers = value.uses
    gain = b.emit_node(Mul(), value, ones)
    for node, place in readers:
        node.set_operand(place, gain.result)
    return gain


def drop_gains(function: Function, gains: dict[Node, Value]) -> None:
    """Remove the products by ones."""
    for gain, value in gains.items():
        ones = gain.operands[1]
        assert isinstance(ones, Constant)
        if ones.is_all(1):
            function.replace(gain.result, value)
            function.erase(gain)
            function.module.erase_constant(ones)
