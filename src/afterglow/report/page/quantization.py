"""What of a model is stored as integers, as a page draws it."""

from __future__ import annotations

from typing import Any

from afterglow.graph import Constant, Function, Node
from afterglow.ops.flops import PRODUCTS
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.quantization.observation import Observation
from afterglow.quantization.profile import Profile
from afterglow.report.quantization import histogram_of
from afterglow.report.quantization_html import histogram_svg
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class ObservedRange:
    """The histogram of a value as it was observed, and the range that its integers stand for."""

    low: float
    high: float
    histogram: tuple[int, ...]
    clipped_low: float
    clipped_high: float


def quantization_data(function: Function, profile: Profile | None) -> dict[str, Any] | None:
    """The quantized values of an optimised graph, and its products; None if there are none.

    Histograms are those of the profile by which values were quantized.
    """
    nodes = [*function.nodes]
    values = [row for node in nodes if (row := _value_data(node, profile)) is not None]
    products = [node for node in nodes if isinstance(node.op, PRODUCTS)]
    integers = sum(isinstance(node.op, (QuantizedConv, QuantizedMatMul)) for node in products)
    if not values and not integers:
        return None
    return {"products": len(products), "integer_products": integers, "values": values}


def _value_data(node: Node, profile: Profile | None) -> dict[str, Any] | None:
    """A value that is stored as integers with one scale that is known."""
    if not isinstance(node.op, QuantizeLinear) or not isinstance(node.operands[1], Constant):
        return None
    scales, type = node.operands[1].data, node.result.type
    zero = node.operands[2] if len(node.operands) > 2 else None
    if scales.size != 1 or not type.dtype.is_integer:
        return None
    offset = int(zero.data.reshape(-1)[0]) if isinstance(zero, Constant) else 0
    scale = float(scales.reshape(-1)[0])
    low, high = ((limit - offset) * scale for limit in type.dtype.limits)
    return {
        "name": node.name,
        "origin": node.origin,
        "type": str(type),
        "scale": scale,
        "zero_point": offset,
        "low": low,
        "high": high,
        "picture": _picture(_observed(node, profile), low, high),
    }


def _observed(node: Node, profile: Profile | None) -> Observation | None:
    """What a profile observed of the value that a node quantizes.

    The node is named after it: what it reads may be another value, where a relu became clipping.
    """
    if profile is None:
        return None
    source = node.operands[0]
    names = (node.name.removesuffix(".quantized"), "" if source is None else source.name)
    return next((profile.observations[n] for n in names if n in profile.observations), None)


def _picture(observed: Observation | None, low: float, high: float) -> str:
    """The histogram as SVG, which contains numbers only."""
    if observed is None or not observed.high > observed.low:
        return ""
    counts = histogram_of(observed)
    return histogram_svg(ObservedRange(observed.low, observed.high, counts, low, high))
