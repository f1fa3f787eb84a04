"""How many bits each storage point has: bytes, or 16 bits where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from afterglow.graph import Node, Value
from afterglow.ops.activation import Clip, Relu
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import Add, Mul, Sub
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.points import Points, is_anchor
from afterglow.types import DType
from afterglow.types.dtype import i16, u8

COMPUTED = (Add, Sub, Mul, Relu, Clip)
"""Elementwise ops that need no table where no floats are wanted."""


def point_types(
    points: Points, sources: Mapping[Value, Value], config: QuantizationConfig
) -> dict[Value, DType]:
    """The element type of each point; those with one source have the same.

    A layer that is asked to read 16 bits does, and so does all that shares its scale. Where no
    floats are wanted, attention and functions that are looked up read bytes.
    """
    readers: dict[Value, list[Node]] = {}
    for value, source in sources.items():
        readers.setdefault(source, []).extend(node for node, _ in points.readers[value])
    chosen = {source: _chosen(nodes, config) for source, nodes in readers.items()}
    return {value: chosen[source] for value, source in sources.items()}


def _chosen(readers: list[Node], config: QuantizationConfig) -> DType:
    narrow = u8 if config.dtype is i16 else config.dtype
    if config.integer_only and any(map(_needs_bytes, readers)):
        return narrow
    wide = config.dtype is i16 or any(_asks(node, config.widens) for node in readers)
    return i16 if wide else narrow


def _asks(node: Node, widens: Callable[[Node], bool]) -> bool:
    return is_anchor(node) and widens(node)


def _needs_bytes(node: Node) -> bool:
    return isinstance(node.op, Attention) or (
        node.op.elementwise and not isinstance(node.op, COMPUTED)
    )
