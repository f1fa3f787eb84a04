"""How a model is quantized: what users choose, as a frozen value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from afterglow.graph import Node
from afterglow.quantization.calibrate import DEFAULT_PERCENTILE
from afterglow.quantization.named_nodes import check_named, is_named
from afterglow.quantization.scheme import Method, Scheme
from afterglow.support.errors import UsageError
from afterglow.types import DType
from afterglow.types.dtype import i8, u8

ACTIVATION_TYPES = {"uint8": u8, "int8": i8}
"""Element types of quantized activations, by name."""


@dataclass(frozen=True)
class QuantizationConfig:
    """How integers are chosen for the activations and weights of a model.

    Args:
        scheme: "asymmetric", "symmetric", "symmetric_uint8" or "power_of_two".
        method: how ranges are chosen: "minmax", "average", "percentile", "entropy" or "mse".
        activations: "uint8" or "int8".
        percentile: the share of numbers, in percent, that the method "percentile" keeps.
        keep: layers that stay in floats: names of nodes of the model, or patterns with stars.
        correct_bias: whether biases make up for the mean error of rounded weights.
        search_weights: whether the ranges of weights are those with the least squared error.
        equalise: whether channels of activations that reach further than others are scaled down,
            where that is expected to help; reports are then of the scaled channels.
        integer_only: whether sums are rescaled in integers, and functions looked up in tables, so
            that no float is computed between quantized values: docs/quantization.md.
    """

    scheme: str = Scheme.ASYMMETRIC
    method: str = Method.MSE
    activations: str = "uint8"
    percentile: float = DEFAULT_PERCENTILE
    keep: tuple[str, ...] = ()
    correct_bias: bool = True
    search_weights: bool = False
    equalise: bool = True
    integer_only: bool = False

    def __post_init__(self) -> None:
        _check("scheme", self.scheme, list(Scheme))
        _check("method", self.method, list(Method))
        _check("type of activations", self.activations, list(ACTIVATION_TYPES))
        if isinstance(self.keep, str):
            raise UsageError(
                f"keep must be a list of names, got {self.keep!r}",
                help=f"write keep=[{self.keep!r}]",
            )
        object.__setattr__(self, "keep", tuple(self.keep))

    @property
    def dtype(self) -> DType:
        """The element type of quantized activations."""
        return ACTIVATION_TYPES[self.activations]

    @property
    def keeps(self) -> Callable[[Node], bool]:
        """Whether a node stays in floats."""
        return lambda node: is_named(node, self.keep)

    def keeping(self, more: Sequence[str]) -> QuantizationConfig:
        """The same, with more layers that stay in floats."""
        return replace(self, keep=(*self.keep, *more)) if more else self

    def check_kept(self, layers: Sequence[Node]) -> None:
        """Raise if a name of a layer to keep fits none of the layers of a model."""
        check_named(self.keep, layers, "layer that would compute in integers")


def _check(what: str, given: str, known: list[str]) -> None:
    if given not in known:
        raise UsageError(f"no {what} {given!r}", help=f"there are {', '.join(map(str, known))}")
