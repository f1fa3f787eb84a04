"""The architectures of GGUF files: what their metadata and tensors mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from afterglow.frontends.gguf.reader import GgufFile
from afterglow.frontends.language.config import LanguageConfig, LayerConfig, checked_layers
from afterglow.frontends.language.facts import Facts
from afterglow.frontends.language.fused import cut_fused
from afterglow.frontends.language.rope import Rope, Yarn
from afterglow.frontends.language.weights import Weight
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Architecture:
    """What a name stands for beyond the metadata."""

    interleaved: bool = False
    """Whether neighbours are turned together: rows of queries and keys are in that order."""
    activation: str = "silu"
    scales_embedding: bool = False
    """Whether embeddings are multiplied by the root of the width."""
    window_every: int = 1
    """Of so many layers all but the last have a window; 1: all have it, if there is one."""
    turns_all_but: int = 0
    """Of so many layers the last does not turn heads; 0: all turn them."""
    local_base: float = 0.0
    """The base of rotary embeddings in layers with a window, if they have another one."""


_ARCHITECTURES = {
    "llama": Architecture(interleaved=True),
    "qwen2": Architecture(),
    "qwen3": Architecture(),
    "smollm3": Architecture(interleaved=True, turns_all_but=4),
    "granite": Architecture(interleaved=True),
    "phi3": Architecture(),
    "gemma": Architecture(activation="gelu", scales_embedding=True),
    "gemma2": Architecture(activation="gelu", scales_embedding=True, window_every=2),
    "gemma3": Architecture(
        activation="gelu", scales_embedding=True, window_every=6, local_base=10000.0
    ),
}
_IGNORED = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""Tensors that are part of the configuration."""


def architecture_of(file: GgufFile) -> tuple[str, Architecture]:
    """The architecture that a file names."""
    name = file.metadata.text("general.architecture")
    if name not in _ARCHITECTURES:
        raise UnsupportedError(
            f"the architecture {name!r} is not supported",
            help=f"GGUF models of {', '.join(_ARCHITECTURES)} are",
        )
    return name, _ARCHITECTURES[name]


@dataclass(frozen=True)
class _Keys:
    """The metadata of an architecture, whose keys begin with its name."""

    facts: Facts
    name: str

    def integer(self, key: str, default: int | None = None) -> int:
        return self.facts.integer(f"{self.name}.{key}", default)

    def positive(self, key: str, default: int | None = None) -> int:
        return self.facts.positive(f"{self.name}.{key}", default)

    def number(self, key: str, default: float | None = None) -> float:
        return self.facts.number(f"{self.name}.{key}", default)

    def text(self, key: str, default: str) -> str:
        return self.facts.text(f"{self.name}.{key}", default)


def read_config(file: GgufFile) -> LanguageConfig:
    """What the metadata of a file say."""
    name, architecture = architecture_of(file)
    keys = _Keys(file.metadata, name)
    if keys.integer("expert_count", 0):
        raise UnsupportedError(f"a mixture of experts ({name}) is not supported")
    width, heads = keys.positive("embedding_length"), keys.positive("attention.head_count")
    key_width = keys.positive("attention.key_length", max(width // heads, 1))
    return LanguageConfig(
        architecture=name,
        vocabulary=_vocabulary(file),
        width=width,
        hidden=keys.positive("feed_forward_length"),
        heads=heads,
        kv_heads=keys.positive("attention.head_count_kv", heads),
        key_width=key_width,
        value_width=keys.positive("attention.value_length", key_width),
        context=keys.positive("context_length"),
        epsilon=keys.number("attention.layer_norm_rms_epsilon"),
        layers=_layers(file, keys, architecture, key_width),
        attention_scale=keys.number("attention.scale", 0.0) or _scale(name, keys, key_width),
        attention_softcap=_softcap(keys, "attn_logit_softcapping", name, 50.0),
        logit_softcap=_softcap(keys, "final_logit_softcapping", name, 30.0),
        embedding_scale=math.sqrt(width)
        if architecture.scales_embedding
        else keys.number("embedding_scale", 0.0) or 1.0,
        residual_scale=keys.number("residual_scale", 0.0) or 1.0,
        logit_scale=1 / (keys.number("logit_scale", 0.0) or 1.0),
        activation=architecture.activation,
    )


def _vocabulary(file: GgufFile) -> int:
    """The rows of the embedding, of which all must agree."""
    table = file.tensors.get("token_embd.weight")
    if table is None:
        raise ModelError("the model has no tensor 'token_embd.weight'")
    return table.shape[0]


def _scale(name: str, keys: _Keys, key_width: int) -> float:
    """By which products of queries and keys are multiplied.

    The largest models of Gemma 2 and 3, told by their number of layers, go by the width.
    """
    large = {"gemma2": 46, "gemma3": 62}.get(name) == keys.positive("block_count")
    if large:
        key_width = keys.positive("embedding_length") // keys.positive("attention.head_count")
    return 1 / math.sqrt(max(key_width, 1))


def _softcap(keys: _Keys, key: str, name: str, default: float) -> float:
    return keys.number(key, default if name == "gemma2" else 0.0)


def _layers(
    file: GgufFile, keys: _Keys, architecture: Architecture, key_width: int
) -> tuple[LayerConfig, ...]:
    rope = _rope(file, keys, architecture, key_width)
    window = keys.integer("attention.sliding_window", 0)
    every, skip = architecture.window_every, architecture.turns_all_but
    local = rope
    if architecture.local_base:
        local = Rope(rope.width, keys.number("rope.freq_base_swa", architecture.local_base))
    layers = []
    for number in range(checked_layers(keys.positive("block_count"))):
        windowed = bool(window) and (every == 1 or (number + 1) % every != 0)
        turned = not skip or (number + 1) % skip != 0
        own = local if windowed and every > 1 else rope
        layers.append(LayerConfig(own if turned else None, window if windowed else 0))
    return tuple(layers)


def _rope(file: GgufFile, keys: _Keys, architecture: Architecture, key_width: int) -> Rope:
    """The rotary embedding, with the scaling that metadata or tensors say."""
    rope = Rope(
        keys.positive("rope.dimension_count", key_width),
        keys.number("rope.freq_base", 10000.0),
        architecture.interleaved,
    )
    kind = keys.text("rope.scaling.type", "none")
    factor = keys.number("rope.scaling.factor", 0.0) or keys.number("rope.scale_linear", 1.0)
    if not factor > 0:
        raise ModelError(f"the factor of the rotary embedding is {factor:g}")
    original = keys.positive(
        "rope.scaling.original_context_length", keys.positive("context_length")
    )
    if kind == "yarn":
        stretch = 1.0 if factor <= 1 else 0.1 * math.log(factor) + 1
        amplitude = keys.number("rope.scaling.attn_factor", 1.0) * stretch
        return replace(rope, yarn=Yarn(factor, original), amplitude=amplitude)
    factors = _factors(file.tensors, keys, original)
    if factors:
        amplitude = keys.number("rope.scaling.attn_factor", 1.0)
        return replace(rope, factors=factors, amplitude=amplitude)
    if kind in ("linear", "none", "longrope"):
        pairs = rope.width // 2
        return replace(rope, factors=(factor,) * pairs) if factor != 1 else rope
    raise UnsupportedError(f"the scaling {kind!r} of the rotary embedding is not supported")


def _factors(tensors: Mapping[str, Weight], keys: _Keys, original: int) -> tuple[float, ...]:
    """Factors of frequencies that a tensor holds; of two, the long ones are for long contexts."""
    is_long = keys.positive("context_length") > original
    names = ["rope_freqs.weight", f"rope_factors_{'long' if is_long else 'short'}.weight"]
    found = next((tensors[name] for name in names if name in tensors), None)
    return () if found is None else tuple(map(float, found.floats().reshape(-1)))


def read_weights(file: GgufFile, config: LanguageConfig) -> dict[str, Weight]:
    """The tensors that are weights; those that are one matrix are cut apart."""
    weights = {name: w for name, w in file.tensors.items() if name not in _IGNORED}
    cut_fused(weights, config)
    return weights
