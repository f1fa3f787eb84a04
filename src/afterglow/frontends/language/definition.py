"""The graph of a language model as a definition: its weights by name, nodes of the dialect.

Weights have the names that GGUF files give them. All tokens of a call go through the layers
together, whichever sequences they belong to: each is written into the caches at its sequence and
position, and attends to what is there up to its own position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    GraphDef,
    NodeDef,
    TensorDef,
    TypeDef,
    ValueDef,
    constant,
)
from afterglow.frontends.language.config import LanguageConfig, LayerConfig
from afterglow.frontends.language.rope import Rope
from afterglow.frontends.language.weights import Weight
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, i32

_KINDS: dict[type, AttributeKind] = {
    bool: AttributeKind.BOOL,
    int: AttributeKind.INT,
    float: AttributeKind.FLOAT,
    str: AttributeKind.STRING,
    tuple: AttributeKind.INTS,
}


@dataclass(frozen=True)
class Caches:
    """The caches of a decoder: how many sequences there are, and how long each may be."""

    sequences: int
    context: int


def define_graph(config: LanguageConfig, weights: Mapping[str, Weight], caches: Caches) -> GraphDef:
    """The graph; an error if weights are missing, have other shapes, or have no place in it."""
    return _GraphWriter(config, weights, caches).write()


@dataclass
class _GraphWriter:
    config: LanguageConfig
    weights: Mapping[str, Weight]
    caches: Caches
    nodes: list[NodeDef] = field(default_factory=list)
    constants: dict[str, TensorDef] = field(default_factory=dict)

    def write(self) -> GraphDef:
        config = self.config
        x = self._embedded()
        for number, layer in enumerate(config.layers):
            x = self._layer(x, number, layer)
        x = self._norm(x, "output_norm", config.width)
        head = "output" if "output.weight" in self.weights else "token_embd"
        x = self._linear(x, head, (config.vocabulary, config.width), name="output")
        x = self._scaled(x, config.logit_scale, "logits.scaled")
        if config.logit_softcap:
            x = self._node("softcap", "logits.capped", (x,), limit=config.logit_softcap)
        self._check_all_used()
        self.nodes.append(NodeDef("identity", "", "logits", (x,), ("logits",)))
        inputs = tuple(
            ValueDef(name, TypeDef("tensor", i32, (dimension,)))
            for name, dimension in (*((n, "tokens") for n in BY_TOKEN), ("wanted", "wanted"))
        )
        logits = TypeDef("tensor", f32, ("wanted", config.vocabulary))
        constants = tuple(self.constants.values())
        outputs = (ValueDef("logits", logits),)
        return GraphDef(config.architecture, tuple(self.nodes), inputs, outputs, constants)

    def _embedded(self) -> str:
        config = self.config
        shape = (config.vocabulary, config.width)
        operands, attributes = self._matrix("token_embd.weight", shape)
        x = self._node("embed", "embedding", ("tokens", *operands), **attributes)
        return self._scaled(x, config.embedding_scale, "embedding.scaled")

    def _layer(self, x: str, number: int, layer: LayerConfig) -> str:
        """Attention and a feed-forward network; after the last attention, only wanted rows."""
        block, config = f"blk.{number}", self.config
        attended = self._attention(x, number, layer)
        if number == len(config.layers) - 1:
            attended = self._node("take", "wanted.attended", (attended, "wanted"))
            x = self._node("take", "wanted.rows", (x, "wanted"))
        width = config.heads * config.value_width
        y = self._linear(attended, f"{block}.attn_output", (config.width, width))
        x = self._residual(x, y, f"{block}.post_attention_norm")
        return self._residual(x, self._feed_forward(x, block), f"{block}.post_ffw_norm")

    def _residual(self, x: str, y: str, norm: str) -> str:
        """The sum of both, where the second may be normalized first."""
        if f"{norm}.weight" in self.weights:
            y = self._norm(y, norm, self.config.width)
        y = self._scaled(y, self.config.residual_scale, f"{y}.scaled")
        return self._node("add", f"{y}.sum", (x, y))

    def _attention(self, x: str, number: int, layer: LayerConfig) -> str:
        block, config = f"blk.{number}", self.config
        x = self._norm(x, f"{block}.attn_norm", config.width)
        q = self._heads(x, f"{block}.attn_q", config.heads, config.key_width, layer.rope)
        k = self._heads(x, f"{block}.attn_k", config.kv_heads, config.key_width, layer.rope)
        v = self._heads(x, f"{block}.attn_v", config.kv_heads, config.value_width, None)
        places = ("positions", "sequences")
        keys = self._cached(f"cache.{number}.keys", k, config.key_width)
        values = self._cached(f"cache.{number}.values", v, config.value_width)
        y = self._node(
            "attention",
            f"{block}.attn",
            (q, keys, values, *places),
            scale=config.attention_scale,
            window=layer.window,
            softcap=config.attention_softcap,
        )
        width = config.heads * config.value_width
        return self._node("shape_rows", f"{block}.attn.rows", (y,), shape=(width,))

    def _heads(self, x: str, name: str, heads: int, width: int, rope: Rope | None) -> str:
        """Rows times a matrix, as heads: normalized if there is a norm, and turned."""
        x = self._linear(x, name, (heads * width, self.config.width))
        x = self._node("shape_rows", f"{name}.heads", (x,), shape=(heads, width))
        if f"{name}_norm.weight" in self.weights:
            x = self._norm(x, f"{name}_norm", width)
        if rope is None:
            return x
        tables = self._rope_rows(rope)
        turned = (x, *tables)
        return self._node("rotary", f"{name}.turned", turned, interleaved=rope.interleaved)

    def _rope_rows(self, rope: Rope) -> tuple[str, str]:
        """The cosines and sines of all tokens, looked up once."""
        ropes = {layer.rope for layer in self.config.layers if layer.rope is not None}
        order = sorted(ropes, key=repr)
        prefix = "rope" if len(ropes) == 1 else f"rope.{order.index(rope)}"
        found = (f"{prefix}.cosines.rows", f"{prefix}.sines.rows")
        if f"{prefix}.cosines" not in self.constants:
            tables = rope.tables(self.caches.context)
            for name, table in zip(("cosines", "sines"), tables, strict=True):
                key = f"{prefix}.{name}"
                self.constants[key] = constant(key, table)
                self._node("look_up", f"{key}.rows", (key, "positions"))
        return found

    def _cached(self, name: str, rows: str, width: int) -> str:
        """A cache with the rows of this call."""
        caches, heads = self.caches, self.config.kv_heads
        shape = (caches.sequences, heads, caches.context, width)
        return self._node("cache", name, (rows, "positions", "sequences"), shape=shape)

    def _feed_forward(self, x: str, block: str) -> str:
        config = self.config
        x = self._norm(x, f"{block}.ffn_norm", config.width)
        gate = self._linear(x, f"{block}.ffn_gate", (config.hidden, config.width))
        gate = self._node(config.activation, f"{block}.ffn_act", (gate,))
        up = self._linear(x, f"{block}.ffn_up", (config.hidden, config.width))
        y = self._node("mul", f"{block}.ffn_gated", (gate, up))
        return self._linear(y, f"{block}.ffn_down", (config.width, config.hidden))

    def _norm(self, x: str, name: str, width: int) -> str:
        operands = (x, self._vector(f"{name}.weight", width, self.config.norm_shift))
        return self._node("rms_norm", name, operands, epsilon=self.config.epsilon)

    def _linear(self, x: str, weight: str, shape: tuple[int, int], name: str = "") -> str:
        operands, attributes = self._matrix(f"{weight}.weight", shape)
        y = self._node("linear", name or weight, (x, *operands), **attributes)
        if f"{weight}.bias" not in self.weights:
            return y
        bias = self._vector(f"{weight}.bias", shape[0])
        return self._node("add", f"{name or weight}.biased", (y, bias))

    def _scaled(self, x: str, factor: float, name: str) -> str:
        return x if factor == 1 else self._node("scale", name, (x,), factor=factor)

    def _node(self, op: str, name: str, operands: tuple[str, ...], **attributes: Any) -> str:
        described = {key: AttributeDef(_KINDS[type(v)], v) for key, v in attributes.items()}
        self.nodes.append(NodeDef(op, "", name, operands, (name,), described))
        return name

    def _vector(self, name: str, width: int, shift: float = 0.0) -> str:
        """Norms and biases, which are read in f32 whatever they are stored in."""
        weight = self._weight(name, (width,))
        return self._constant(name, partial(_shifted, weight, shift), TensorType(f32, (width,)))

    def _matrix(self, name: str, shape: tuple[int, int]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The operands that a matrix is, and how its numbers are to be read."""
        weight = self._weight(name, shape)
        format = weight.format
        self._constant(name, weight.numbers, TensorType(format.dtype, shape))
        if format.is_float:
            return (name,), {}
        scales = TensorType(format.scale_type, weight.groups)
        operands = [name, self._constant(f"{name}.scale", weight.scales, scales)]
        if format.minimums is not None:
            operands.append(self._constant(f"{name}.minimum", weight.minimums, scales))
        how = {"block": format.group, "bits": format.bits, "row_block": format.block}
        return tuple(operands), how

    def _constant(self, name: str, read: Callable[[], Any], type: TensorType) -> str:
        self.constants[name] = TensorDef(name, read, name, type)
        return name

    def _weight(self, name: str, shape: tuple[int, ...]) -> Weight:
        found = self.weights.get(name)
        if found is None:
            raise ModelError(f"the model has no tensor {name!r}")
        if found.shape != shape:
            raise ModelError(f"tensor {name!r} is {list(found.shape)}, it must be {list(shape)}")
        return found

    def _check_all_used(self) -> None:
        """Refuse weights that no node reads: what they are for would be left out."""
        left = [name for name in self.weights if name not in self.constants]
        if left:
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            raise UnsupportedError(
                f"a model of the architecture {self.config.architecture!r} has no place for the "
                f"tensors {', '.join(map(repr, left[:3]))}{more}"
            )


def _shifted(weight: Weight, shift: float) -> Array:
    return weight.floats() + np.float32(shift) if shift else weight.floats()


BY_TOKEN = ("tokens", "positions", "sequences")
"""The inputs with a number for each token."""
