"""Hugging Face folders from end to end: the weights of a small Llama, and what is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.frontends.huggingface.safetensors import read_tensors
from afterglow.support.errors import AfterglowError
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
    llama_logits,
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
TOKENS = [1, 5, 9, 270, 271, 280]


def safetensors(tensors: Mapping[str, Array]) -> bytes:
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
    found = {}
    for name, weight in llama_weights().items():
        *block, base, _ = name.split(".")
        array = halves_apart(weight) if base in ("attn_q", "attn_k") else weight
        prefix = f"model.layers.{block[1]}." if block else ""
        found[f"{prefix}{NAMES[base]}.weight"] = np.ascontiguousarray(array)
    return found


def write_folder(path: Path, **change: Any) -> Path:
    (path / "config.json").write_text(json.dumps({**CONFIG, **change}))
    (path / "model.safetensors").write_bytes(safetensors(folder_tensors()))
    return path


def run(model: Any) -> Array:
    count = len(TOKENS)
    places = np.arange(count, dtype=np.int32)
    logits: Array = model(np.int32(TOKENS), places, np.zeros(count, np.int32), places)
    return logits


def test_logits_are_those_of_the_same_weights_in_another_order(tmp_path: Path) -> None:
    model = ag.compile(write_folder(tmp_path), backend="interpreter", cache=False)
    np.testing.assert_allclose(run(model), llama_logits(llama_weights(), TOKENS), atol=2e-5)


def test_weights_may_be_in_several_files(tmp_path: Path) -> None:
    write_folder(tmp_path)
    tensors = folder_tensors()
    (tmp_path / "model.safetensors").unlink()
    parts = {"a.safetensors": [*tensors][::2], "b.safetensors": [*tensors][1::2]}
    for file, names in parts.items():
        (tmp_path / file).write_bytes(safetensors({name: tensors[name] for name in names}))
    where = {name: file for file, names in parts.items() for name in names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    model = ag.compile(tmp_path, backend="interpreter", cache=False)
    np.testing.assert_allclose(run(model), llama_logits(llama_weights(), TOKENS), atol=2e-5)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"model_type": "bert"}, "models of the type 'bert' are not supported"),
        ({"quantization_config": {"bits": 4}}, "the folder has quantized weights"),
        ({"hidden_act": "relu"}, "the activation 'relu' is not supported"),
        ({"hidden_size": "wide"}, "'hidden_size' of config.json must be an integer"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "the scaling 'dynamic' of the"),
        ({"num_hidden_layers": 10**9}, "the model has 1,000,000,000 layers"),
    ],
)
def test_folders_that_cannot_be_are_refused_in_words(
    tmp_path: Path, change: dict[str, Any], what: str
) -> None:
    with pytest.raises(AfterglowError) as caught:
        ag.compile(write_folder(tmp_path, **change), backend="interpreter")
    assert caught.value.what.startswith(what)


def test_an_index_may_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    text = json.dumps({"weight_map": {"x": "../outside.safetensors"}})
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(AfterglowError, match="which is not in the folder"):
        ag.compile(tmp_path, backend="interpreter")


def test_every_truncation_of_safetensors_is_refused() -> None:
    data = safetensors({"w": np.ones((2, 3), np.float32)})
    for length in range(len(data)):
        with pytest.raises(AfterglowError):
            read_tensors(memoryview(data[:length]))
