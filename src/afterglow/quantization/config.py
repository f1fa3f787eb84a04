"""How a model is quantized: what users choose, as a frozen value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from afterglow.graph import Node
from afterglow.quantization.calibrate import DEFAULT_PERCENTILE
from afterglow.quantization.named_nodes import check_named, is_named
from afterglow.quantization.scheme import Method, Scheme
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType
from afterglow.types.dtype import i8, i16, u8

ACTIVATION_TYPES = {"uint8": u8, "int8": i8, "int16": i16}
"""Element types of quantized activations, by name."""


@dataclass(frozen=True)
class QuantizationConfig:
    """How integers are chosen for the activations and weights of a model.

    Args:
        scheme: "asymmetric", "symmetric", "symmetric_uint8" or "power_of_two".
        method: how ranges are chosen: "minmax", "average", "percentile", "entropy" or "mse".
        activations: "uint8", "int8", or "int16", which is symmetric and covers all observed.
        percentile: the share of numbers, in percent, that the method "percentile" keeps.
        keep: layers that stay in floats: names of nodes of the model, or patterns with stars.
        correct_bias: whether biases make up for the mean error of rounded weights.
        search_weights: whether the ranges of weights are those with the least squared error.
        equalise: whether channels of activations that reach further than others are scaled down,
            where that is expected to help; reports are then of the scaled channels.
        int16: layers that read activations of 16 bits, named as those of `keep`.
        integer_only: whether sums are rescaled in integers, and functions looked up in tables, so
            that no float is computed between quantized values: docs/quantization.md.
        quantized_io: whether inputs and outputs are integers, too; `model.inputs` and the header
            of a bundle say what they stand for.
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
    int16: tuple[str, ...] = ()
    quantized_io: bool = False

    def __post_init__(self) -> None:
        _check("scheme", self.scheme, list(Scheme))
        _check("method", self.method, list(Method))
        _check("type of activations", self.activations, list(ACTIVATION_TYPES))
        for field in ("keep", "int16"):
            names = getattr(self, field)
            if isinstance(names, str):
                raise UsageError(
                    f"{field} must be a list of names, got {names!r}",
                    help=f"write {field}=[{names!r}]",
                )
            object.__setattr__(self, field, tuple(names))

    @property
    def dtype(self) -> DType:
        """The element type of quantized activations."""
        return ACTIVATION_TYPES[self.activations]

    @property
    def keeps(self) -> Callable[[Node], bool]:
        """Whether a node stays in floats."""
        return lambda node: is_named(node, self.keep)

    @property
    def widens(self) -> Callable[[Node], bool]:
        """Whether a node reads activations of 16 bits."""
        return lambda node: is_named(node, self.int16)

    def keeping(self, keep: Sequence[str], int16: Sequence[str] = ()) -> QuantizationConfig:
        """The same, with more layers that stay in floats, and that read 16 bits."""
        return replace(self, keep=(*self.keep, *keep), int16=(*self.int16, *int16))

    def check_kept(self, layers: Sequence[Node]) -> None:
        """Raise if a name of a layer to keep fits none of the layers of a model."""
        named = (*self.keep, *self.int16)
        check_named(named, layers, "layer that would compute in integers")


def _check(what: str, given: str, known: list[str]) -> None:
    if given not in known:
        raise UsageError(f"no {what} {given!r}", help=f"there are {', '.join(map(str, known))}")
