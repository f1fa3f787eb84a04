"""How many bits each storage point has: bytes, or 16 bits where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.graph import Value
from afterglow.ops.attention import Attention
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.points import Points, is_anchor
from afterglow.types import DType
from afterglow.types.dtype import i16, u8


def point_types(
    points: Points, sources: Mapping[Value, Value], config: QuantizationConfig
) -> dict[Value, DType]:
    """The element type of each point; those with one source have the same.

    A layer that is asked to read 16 bits does, and so does all that shares its scale; of integers
    alone also what functions compute it from. There, attention reads bytes.
    """
    narrow = u8 if config.dtype is i16 else config.dtype
    groups: dict[Value, list[Value]] = {}
    for value, source in sources.items():
        groups.setdefault(source, []).append(value)
    wide = {
        source for source, group in groups.items() if any(_asks(points, v, config) for v in group)
    }
    if config.integer_only:
        for value in reversed(points.readers):
            if sources[value] in wide:
                wide.update(sources[each] for each in _computed_from(value) if each in sources)
        wide -= {source for source, group in groups.items() if _attended(points, group)}
    return {value: i16 if source in wide else narrow for value, source in sources.items()}


def _asks(points: Points, value: Value, config: QuantizationConfig) -> bool:
    """Whether a reader of a value is to read 16 bits."""
    if config.dtype is i16:
        return True
    return any(is_anchor(node) and config.widens(node) for node, _ in points.readers[value])


def _computed_from(value: Value) -> list[Value]:
    """The values that a function of others computes it from."""
    node = value.producer
    return node.given if node is not None and node.op.elementwise else []


def _attended(points: Points, group: list[Value]) -> bool:
    readers = (node for value in group for node, _ in points.readers[value])
    return any(isinstance(node.op, Attention) for node in readers)
