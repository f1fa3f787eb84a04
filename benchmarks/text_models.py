"""A Llama of 134 million parameters with random weights, in the forms that engines read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.types import Array
from tests.frontends.gguf.files import gguf_bytes, q4_0
from tests.frontends.huggingface.files import safetensors

WIDTH, HIDDEN, LAYERS, HEADS, VOCABULARY, CONTEXT = 768, 2048, 12, 12, 32000, 1024
STORES: dict[str, Callable[[Array], Any]] = {
    "Q4_0": q4_0,
    "F16": lambda array: array.astype(np.float16),
    "F32": lambda array: array,
}
"""How matrices are stored, by the names that GGUF has for it."""
PRECISIONS = {"Q4_0": "int4", "F32": "fp32"}
"""The precisions of onnxruntime-genai's builder for a processor."""
NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
"""Names of Hugging Face for those of GGUF."""


def random_weights() -> Iterator[tuple[str, Array]]:
    """The weights under their names in GGUF; norms are ones."""
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32) * np.float32(0.02)

    yield "token_embd.weight", random(VOCABULARY, WIDTH)
    yield "output_norm.weight", np.ones(WIDTH, np.float32)
    yield "output.weight", random(VOCABULARY, WIDTH)
    shapes = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
    shapes |= {"ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}
    for number in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            yield f"blk.{number}.{norm}.weight", np.ones(WIDTH, np.float32)
        for name, shape in shapes.items():
            yield f"blk.{number}.{name}.weight", random(*shape)


def write_gguf(path: Path, weights: str) -> None:
    """The model as a GGUF file."""
    store = STORES[weights]
    tensors = {name: store(w) if w.ndim == 2 else w for name, w in random_weights()}
    path.write_bytes(gguf_bytes(_metadata(weights), tensors))


def write_onnx(folder: Path, weights: str) -> None:
    """The model as onnxruntime-genai's builder writes it."""
    source = folder.parent / "huggingface"
    if not source.exists():
        _write_hugging_face(source)
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-m", "random"]
    options = ["-i", source, "-o", folder, "-p", PRECISIONS[weights], "-e", "cpu"]
    options += ["-c", folder.parent / "cache", "--extra_options", "hf_token=false"]
    with (folder.parent / "builder.log").open("w") as log:
        subprocess.run([*builder, *options], check=True, stdout=log, stderr=log)


def _metadata(weights: str) -> dict[str, Any]:
    """With a tokenizer of bytes and pairs of them, which all readers of GGUF know."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [*map(chr, printable), *(chr(256 + n) for n in range(256 - len(printable)))]
    pairs = [(a, b) for a in letters for b in letters][: VOCABULARY - 257]
    return {
        "general.architecture": "llama",
        "general.name": "random",
        "general.file_type": {"F32": 0, "F16": 1, "Q4_0": 2}[weights],
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.vocab_size": VOCABULARY,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*letters, *(a + b for a, b in pairs), "<|endoftext|>"],
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in pairs],
        "tokenizer.ggml.token_type": [1] * (VOCABULARY - 1) + [3],
        "tokenizer.ggml.bos_token_id": VOCABULARY - 1,
        "tokenizer.ggml.eos_token_id": VOCABULARY - 1,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}",
    }


def _write_hugging_face(folder: Path) -> None:
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }
    words = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"w{n}": n for n in range(3, VOCABULARY)}}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}
    none = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    cut = {"added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}
    tokenizer = {"version": "1.0", **none, **cut, "model": model}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    for name, content in (
        ("config", config),
        ("tokenizer", tokenizer),
        ("tokenizer_config", about),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content))
    tensors = {_name(name): weight for name, weight in random_weights()}
    (folder / "model.safetensors").write_bytes(safetensors(tensors))


def _name(name: str) -> str:
    *block, base, _ = name.split(".")
    prefix = f"model.layers.{block[1]}." if block else ""
    return f"{prefix}{NAMES[base]}.weight"
