"""config.json as transformers writes it: what its keys mean for each type of model."""

from __future__ import annotations

import math
from dataclasses import replace

from afterglow.frontends.language.config import LanguageConfig, LayerConfig, checked_layers
from afterglow.frontends.language.facts import Facts
from afterglow.frontends.language.rope import Rope, Yarn, llama3_factors
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass

_TYPES = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "phi3", "gemma", "granite")
_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu"}


@dataclass(frozen=True)
class _Config:
    """The keys of a config, with the defaults that several types of models share."""

    facts: Facts

    @property
    def type(self) -> str:
        return self.facts.text("model_type")

    @property
    def width(self) -> int:
        return self.facts.positive("hidden_size")

    @property
    def heads(self) -> int:
        return self.facts.positive("num_attention_heads")

    @property
    def head_width(self) -> int:
        return self.facts.positive("head_dim", max(self.width // self.heads, 1))

    @property
    def context(self) -> int:
        return self.facts.positive("max_position_embeddings")

    @property
    def layers(self) -> int:
        return checked_layers(self.facts.positive("num_hidden_layers"))


def read_config(facts: Facts) -> LanguageConfig:
    """What a config says."""
    config = _Config(facts)
    if config.type not in _TYPES:
        raise UnsupportedError(
            f"models of the type {config.type!r} are not supported",
            help=f"folders of {', '.join(_TYPES)} are",
        )
    if facts.has("quantization_config"):
        raise UnsupportedError(
            "the folder has quantized weights, which are not supported",
            help="give the folder with floats, or a GGUF file",
        )
    gemma, granite = config.type == "gemma", config.type == "granite"
    default_scale = 1 / math.sqrt(config.head_width)
    return LanguageConfig(
        architecture=config.type,
        vocabulary=facts.positive("vocab_size"),
        width=config.width,
        hidden=facts.positive("intermediate_size"),
        heads=config.heads,
        kv_heads=facts.positive("num_key_value_heads", config.heads),
        key_width=config.head_width,
        value_width=config.head_width,
        context=config.context,
        epsilon=facts.number("rms_norm_eps", 1e-6),
        layers=_layers(config),
        attention_scale=facts.number("attention_multiplier") if granite else default_scale,
        embedding_scale=math.sqrt(config.width)
        if gemma
        else facts.number("embedding_multiplier", 1.0),
        residual_scale=facts.number("residual_multiplier", 1.0),
        logit_scale=1 / (facts.number("logits_scaling", 1.0) or 1.0),
        activation=_activation(facts),
        norm_shift=1.0 if gemma else 0.0,
    )


def _activation(facts: Facts) -> str:
    name = facts.text("hidden_activation", facts.text("hidden_act", "silu"))
    if facts.text("model_type") == "gemma":
        name = "gelu_pytorch_tanh"  # whatever older files say
    if name not in _ACTIVATIONS:
        raise UnsupportedError(f"the activation {name!r} is not supported")
    return _ACTIVATIONS[name]


def _layers(config: _Config) -> tuple[LayerConfig, ...]:
    facts, rope = config.facts, _rope(config)
    kinds = facts.texts("layer_types") or ["full_attention"] * config.layers
    turned = facts.integers("no_rope_layers") or [1] * config.layers
    for what, each in (("layer_types", kinds), ("no_rope_layers", turned)):
        if len(each) != config.layers:
            raise ModelError(f"{what!r} has {len(each)} entries for {config.layers} layers")
    window = facts.integer("sliding_window", 0)
    always = config.type in ("mistral", "phi3") and not facts.has("layer_types")
    return tuple(
        LayerConfig(rope if turns else None, window if always or kind == "sliding_attention" else 0)
        for kind, turns in zip(kinds, turned, strict=True)
    )


def _rope(config: _Config) -> Rope:
    """The rotary embedding, which newer files describe in one object and older ones in two."""
    facts = config.facts
    newer = facts.within("rope_parameters")
    scaling = newer if facts.has("rope_parameters") else facts.within("rope_scaling")
    base = newer.number("rope_theta", facts.number("rope_theta", 10000.0))
    part = newer.number("partial_rotary_factor", facts.number("partial_rotary_factor", 1.0))
    rope = Rope(int(config.head_width * part), base)
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    if kind == "default":
        return rope
    return _scaled(rope, kind, scaling, config)


def _scaled(rope: Rope, kind: str, scaling: Facts, config: _Config) -> Rope:
    own = config.facts.positive("original_max_position_embeddings", config.context)
    original = scaling.positive("original_max_position_embeddings", own)
    pairs = rope.width // 2
    if kind in ("longrope", "su"):
        return _long(rope, scaling, config.context, original)
    factor = scaling.number("factor")
    if not factor > 0:
        raise ModelError(f"the factor of the rotary embedding is {factor:g}")
    if kind == "linear":
        return replace(rope, factors=(factor,) * pairs)
    if kind == "llama3":
        low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
        if low == high:
            raise ModelError("the frequency factors of the rotary embedding are equal")
        factors = llama3_factors(rope.width, rope.base, factor, low, high, original)
        return replace(rope, factors=factors)
    if kind == "yarn":
        stretch = 1.0 if factor <= 1 else 0.1 * math.log(factor) + 1
        yarn = Yarn(
            factor,
            original,
            scaling.number("beta_fast", 32.0),
            scaling.number("beta_slow", 1.0),
        )
        return replace(rope, yarn=yarn, amplitude=scaling.number("attention_factor", stretch))
    raise UnsupportedError(f"the scaling {kind!r} of the rotary embedding is not supported")


def _long(rope: Rope, scaling: Facts, context: int, original: int) -> Rope:
    """Factors of each frequency, and an amplitude that grows with the context."""
    factors = scaling.numbers("long_factor" if context > original else "short_factor")
    ratio = context / original
    grown = 1.0 if ratio <= 1 else math.sqrt(1 + math.log(ratio) / math.log(original))
    amplitude = scaling.number("attention_factor", grown)
    return replace(rope, factors=tuple(factors), amplitude=amplitude)
