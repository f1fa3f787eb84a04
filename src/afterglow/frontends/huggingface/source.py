"""Folders of Hugging Face as sources: what their files say, and weights by their GGUF names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from afterglow.frontends.content import Content
from afterglow.frontends.huggingface.config import read_config
from afterglow.frontends.huggingface.safetensors import read_json, read_tensors
from afterglow.frontends.language.dialects import HUGGING_FACE
from afterglow.frontends.language.facts import Facts
from afterglow.frontends.language.fused import cut_fused
from afterglow.frontends.language.source import LanguageModel, LanguageSource
from afterglow.frontends.language.weights import Weight
from afterglow.runtime.text_files import folder_metadata
from afterglow.support.errors import ModelError
from afterglow.support.regular_file import path_inside

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_OUTER = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
}
_INNER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""What tensors are called in GGUF files, by what they are called here."""
_ABOUT_TEXT = frozenset(
    (
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
    )
)
"""Files that say what text is for the model."""
_LAYER = re.compile(r"layers\.(\d{1,6})\.(.+)")


def open_folder(folder: Content) -> LanguageSource:
    """The model of a folder, of which nothing but configs and headers is read by now."""
    with folder.located():
        content = folder.inside(CONFIG)
        facts = Facts(read_json(content.data, CONFIG), CONFIG)
        config = read_config(facts)
        files = _files(folder)
        weights = _renamed(_tensors(folder, files))
        cut_fused(weights, config)
        if facts.flag("tie_word_embeddings", False):
            weights.pop("output.weight", None)
        assert folder.path is not None
        text = replace(
            folder_metadata(folder.path),
            architecture=config.architecture,
            vocabulary=config.vocabulary,
        )
        model = LanguageModel(config, weights, text, "Hugging Face")
        beside = [*files, *sorted(_ABOUT_TEXT & folder.names)]
        return LanguageSource(content, model, HUGGING_FACE, beside)


def _files(folder: Content) -> list[str]:
    """The files that hold the weights."""
    if WEIGHTS in folder.names:
        return [WEIGHTS]
    index = Facts(read_json(folder.inside(INDEX).data, INDEX), INDEX)
    names = sorted({*map(str, index.within("weight_map").entries.values())})
    if not names:
        raise ModelError(f"{INDEX} names no files")
    return names


def _tensors(folder: Content, files: Sequence[str]) -> dict[str, Weight]:
    found: dict[str, Weight] = {}
    assert folder.path is not None
    for name in files:
        if path_inside(folder.path, name) is None:
            raise ModelError(f"the weights are to be in {name!r}, which is not in the folder")
        content = folder.inside(name)
        with content.located():
            found.update(read_tensors(content.data))
    return found


def _renamed(tensors: Mapping[str, Weight]) -> dict[str, Weight]:
    """The tensors by the names that GGUF files have for them; others keep their own."""
    found: dict[str, Weight] = {}
    for name, tensor in tensors.items():
        if not name.endswith("rotary_emb.inv_freq"):
            found[_gguf_name(name)] = tensor
    return found


def _gguf_name(name: str) -> str:
    base, _, kind = name.removeprefix("model.").rpartition(".")
    layer = _LAYER.fullmatch(base)
    if layer is None:
        return f"{_OUTER[base]}.{kind}" if base in _OUTER else name
    number, inner = layer.groups()
    return f"blk.{int(number)}.{_INNER[inner]}.{kind}" if inner in _INNER else name
