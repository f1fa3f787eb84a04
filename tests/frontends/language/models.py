"""A tiny random Llama, and what it computes, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from afterglow.types import Array

Rows: TypeAlias = Callable[[Array], Array]

WIDTH, HEADS, KV_HEADS, HIDDEN, LAYERS, CONTEXT = 64, 4, 2, 96, 2, 64
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
PIECES += ["▁", *"abcdefghijklmnopqrstuvwxyz", "th", "he", "▁the", "▁t", "ing", "in"]
VOCABULARY = len(PIECES)
EPSILON, BASE = 1e-5, 10000.0


def llama_metadata(**more: Any) -> dict[str, Any]:
    """The metadata of the model, with a tokenizer."""
    letters = VOCABULARY - 259
    return {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": EPSILON,
        "llama.rope.freq_base": BASE,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": PIECES,
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(n) for n in range(letters)],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * letters,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        **more,
    }


def llama_weights(seed: int = 0, width: int = WIDTH, hidden: int = HIDDEN) -> dict[str, Array]:
    """Random weights, under their GGUF names."""
    rng = np.random.default_rng(seed)
    narrow = width * KV_HEADS // HEADS

    def random(*shape: int) -> Array:
        return (rng.standard_normal(shape) * 0.1).astype(np.float32)

    weights = {
        "token_embd.weight": random(VOCABULARY, width),
        "output_norm.weight": 1 + random(width),
        "output.weight": random(VOCABULARY, width),
    }
    for number in range(LAYERS):
        shapes = {
            "attn_norm": (width,),
            "attn_q": (width, width),
            "attn_k": (narrow, width),
            "attn_v": (narrow, width),
            "attn_output": (width, width),
            "ffn_norm": (width,),
            "ffn_gate": (hidden, width),
            "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }
        for name, shape in shapes.items():
            base = 1 if len(shape) == 1 else 0
            weights[f"blk.{number}.{name}.weight"] = base + random(*shape)
    return weights


def quantized(weights: Mapping[str, Array], store: Callable[[Array], Any]) -> dict[str, Any]:
    """The weights with all matrices in another format."""
    return {name: store(w) if w.ndim == 2 else w for name, w in weights.items()}


def llama_logits(
    weights: Mapping[str, Array], tokens: list[int], seen: Rows = lambda rows: rows
) -> Array:
    """The logits after each token of a sequence; `seen` is what products make of their rows."""
    x = weights["token_embd.weight"][tokens]
    for number in range(LAYERS):
        own = {k.split(".")[2]: w for k, w in weights.items() if f"blk.{number}." in k}
        x = _layer(x, own, seen)
    return seen(_norm(x, weights["output_norm.weight"])) @ weights["output.weight"].T


def _layer(x: Array, w: Mapping[str, Array], seen: Rows) -> Array:
    h = seen(_norm(x, w["attn_norm"]))
    q, k = _turned(h @ w["attn_q"].T, HEADS), _turned(h @ w["attn_k"].T, KV_HEADS)
    v = (h @ w["attn_v"].T).reshape(len(x), KV_HEADS, -1)
    k, v = (each.repeat(HEADS // KV_HEADS, 1) for each in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[2])
    scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = np.einsum("hqk,khd->qhd", e / e.sum(-1, keepdims=True), v).reshape(len(x), -1)
    x = x + seen(mixed) @ w["attn_output"].T
    h = seen(_norm(x, w["ffn_norm"]))
    gate = h @ w["ffn_gate"].T
    return x + seen(gate / (1 + np.exp(-gate)) * (h @ w["ffn_up"].T)) @ w["ffn_down"].T


def _norm(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


def _turned(x: Array, count: int) -> Array:
    """Heads whose neighbouring elements are turned together."""
    width = x.shape[1] // count
    heads = x.reshape(len(x), -1, width // 2, 2)
    angles = np.arange(len(x))[:, None] * BASE ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = heads[..., 0], heads[..., 1]
    return np.stack((a * cos - b * sin, b * cos + a * sin), -1).reshape(len(x), -1, width)
