"""What a language model of the Llama family is, apart from its weights."""

from __future__ import annotations

from afterglow.frontends.language.rope import Rope
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass

MOST_LAYERS = 1024
MOST_CONTEXT = 1 << 24


def checked_layers(count: int) -> int:
    """A number of layers that a model may have: to be asked before they are listed."""
    if count > MOST_LAYERS:
        raise ModelError(f"the model has {count:,} layers, more than {MOST_LAYERS}")
    return count


@dataclass(frozen=True)
class LayerConfig:
    """What layers differ in."""

    rope: Rope | None
    """None if positions are not embedded."""
    window: int = 0
    """How many positions a query sees, its own included; 0 for all before it."""


@dataclass(frozen=True)
class LanguageConfig:
    """Sizes and rules of a decoder."""

    architecture: str
    vocabulary: int
    width: int
    hidden: int
    """The width of the feed-forward networks."""
    heads: int
    kv_heads: int
    key_width: int
    """Elements of a head of queries and keys."""
    value_width: int
    context: int
    """The most positions that it was trained for."""
    epsilon: float
    layers: tuple[LayerConfig, ...]
    attention_scale: float
    attention_softcap: float = 0.0
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    activation: str = "silu"
    norm_shift: float = 0.0
    """What is added to the weights of norms, which some files store less 1."""

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ModelError(
                f"{self.heads} heads of queries cannot share {self.kv_heads} heads of keys equally"
            )
        if self.context > MOST_CONTEXT:
            raise ModelError(f"the context is {self.context:,}, more than {MOST_CONTEXT:,}")
        for rope in {layer.rope for layer in self.layers if layer.rope is not None}:
            self._check_rope(rope)

    def _check_rope(self, rope: Rope) -> None:
        if rope.width > self.key_width:
            raise ModelError(f"{rope.width} elements of heads of {self.key_width} are to be turned")
        if rope.factors and len(rope.factors) != rope.width // 2:
            raise ModelError(
                f"there are {len(rope.factors)} factors for {rope.width // 2} frequencies"
            )
        if not rope.base > 1:
            raise ModelError(f"the base of the rotary embedding is {rope.base:g}")
        if any(not factor > 0 for factor in rope.factors):
            raise ModelError("a factor of the rotary embedding is not positive")
