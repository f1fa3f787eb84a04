"""Small folders of Hugging Face, written byte by byte."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from afterglow.types import Array
from tests.frontends.language.models import (
    BASE,
    CONTEXT,
    EPSILON,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    VOCABULARY,
    WIDTH,
    llama_weights,
)

CONFIG = {
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": EPSILON,
    "rope_theta": BASE,
    "rope_scaling": None,
    "eos_token_id": 2,
}
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def safetensors(tensors: Mapping[str, Array]) -> bytes:
    """A file with these tensors."""
    header: dict[str, Any] = {}
    offset = 0
    for name, array in tensors.items():
        span = [offset, offset + array.nbytes]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": span}
        offset += array.nbytes
    text = json.dumps(header).encode()
    body = b"".join(array.tobytes() for array in tensors.values())
    return struct.pack("<Q", len(text)) + text + body


def halves_apart(weight: Array) -> Array:
    """Rows of heads in the order of folders: all first elements of pairs, then all second."""
    width = WIDTH // HEADS
    return weight.reshape(-1, width // 2, 2, WIDTH).swapaxes(1, 2).reshape(weight.shape)


def folder_tensors() -> dict[str, Array]:
    """The weights of the small Llama, under the names that folders have for them."""
    found = {}
    for name, weight in llama_weights().items():
        *block, base, _ = name.split(".")
        array = halves_apart(weight) if base in ("attn_q", "attn_k") else weight
        prefix = f"model.layers.{block[1]}." if block else ""
        found[f"{prefix}{NAMES[base]}.weight"] = np.ascontiguousarray(array)
    return found
