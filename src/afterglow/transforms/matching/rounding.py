"""Where rounding matters: numbers that are quantized by their own range.

A network that is quantized as it runs turns the last bit of a float into a whole step of a byte,
and each layer passes that on. Rules that are exact but for rounding then change results visibly:
there, arithmetic stays as the model states it, which is also what other engines compute.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from afterglow.graph import Constant, Function, Node, Value
from afterglow.ops.quantization import QuantizeLinear
from afterglow.passes import RewritePass
from afterglow.passes.rewrite import Rule


def quantizes_as_it_runs(function: Function) -> bool:
    """Whether a function quantizes numbers by a scale that it computes."""
    return any(_has_computed_scale(node) for node in function.nodes)


def _has_computed_scale(node: Node) -> bool:
    match node:
        case Node(QuantizeLinear(), [_, Value() as scale, *_]):
            return not isinstance(scale, Constant)
    return False


class RoundingRewritePass(RewritePass):
    """Rules of which some, `rounding`, are left out in functions that quantize as they run."""

    def __init__(self, name: str, rules: Sequence[Rule], rounding: Collection[Rule]) -> None:
        super().__init__(name, rules)
        self._exact = RewritePass(name, [rule for rule in rules if rule not in rounding])

    def run(self, function: Function) -> bool:
        """See the class."""
        if quantizes_as_it_runs(function):
            return self._exact.run(function)
        return super().run(function)
