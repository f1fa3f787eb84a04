"""The tokenizer of a GGUF file, which is in its metadata."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.language.config import LanguageConfig
from afterglow.frontends.language.facts import Facts
from afterglow.runtime.text_metadata import TextMetadata
from afterglow.support.errors import ModelError, warn

_KINDS = {"llama": "sentencepiece", "gpt2": "bpe"}
"""Kinds of tokenizers, by the names that files have for them."""
_ENDS = frozenset(
    ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>")
)
"""Texts of tokens that end a text in chats, whether or not the metadata number them."""
_CONTROL = 3
"""The type of tokens that stand for no text."""
_PREFIX = "tokenizer.ggml."


def read_text(metadata: Facts, config: LanguageConfig) -> TextMetadata:
    """What the file says about texts; without a tokenizer if it has none that is known."""
    tokenizer = _tokenizer(metadata, config.vocabulary)
    is_sentencepiece = tokenizer.get("kind") == "sentencepiece"
    adds = is_sentencepiece or tokenizer.get("pre") in ("llama-bpe", "llama3", "llama-v3")
    return TextMetadata(
        tokenizer=tokenizer,
        name=metadata.text("general.name", ""),
        architecture=config.architecture,
        context=config.context,
        vocabulary=config.vocabulary,
        bos=_token(metadata, "bos_token_id", config),
        eos=_ends(metadata, tokenizer, config),
        unknown=_token(metadata, "unknown_token_id", config),
        add_bos=metadata.flag(f"{_PREFIX}add_bos_token", adds),
        add_eos=metadata.flag(f"{_PREFIX}add_eos_token", False),
        chat_template=metadata.text("tokenizer.chat_template", ""),
    )


def _token(metadata: Facts, key: str, config: LanguageConfig) -> int | None:
    """The number of a special token, which the vocabulary must have."""
    if not metadata.has(_PREFIX + key):
        return None
    token = metadata.integer(_PREFIX + key)
    if token >= config.vocabulary:
        raise ModelError(f"{_PREFIX + key!r} is {token}, of {config.vocabulary:,} tokens")
    return token


def _ends(metadata: Facts, tokenizer: dict[str, Any], config: LanguageConfig) -> tuple[int, ...]:
    named = (_token(metadata, f"{kind}_token_id", config) for kind in ("eos", "eot", "eom"))
    pairs = zip(tokenizer.get("tokens", ()), tokenizer.get("types", ()), strict=False)
    told = (n for n, (text, kind) in enumerate(pairs) if kind == _CONTROL and text in _ENDS)
    return tuple(dict.fromkeys(n for n in (*named, *told) if n is not None))


def _tokenizer(metadata: Facts, vocabulary: int) -> dict[str, Any]:
    if not metadata.has("tokenizer.ggml.model"):
        return {}
    model = metadata.text("tokenizer.ggml.model")
    tokens = metadata.texts(_PREFIX + "tokens")
    if model not in _KINDS or not tokens:
        warn(f"the tokenizer {model!r} of the file is not known: the model takes tokens, not texts")
        return {}
    found: dict[str, Any] = {
        "kind": _KINDS[model],
        "tokens": _counted(tokens, vocabulary, "tokens"),
        "types": metadata.integers(_PREFIX + "token_type") or [1] * len(tokens),
    }
    _counted(found["types"], len(tokens), "types of tokens")
    if model == "gpt2":
        pre = metadata.text(_PREFIX + "pre", "default")
        return {**found, "pre": pre, "merges": metadata.texts(_PREFIX + "merges")}
    scores = metadata.numbers(_PREFIX + "scores")
    prefix = metadata.flag(_PREFIX + "add_space_prefix", True)
    return {
        **found,
        "scores": _counted(scores, len(tokens), "scores of tokens"),
        "add_space_prefix": prefix,
    }


def _counted(found: list[Any], count: int, what: str) -> list[Any]:
    """A list of no more than so many; the model may have more tokens than the tokenizer."""
    if len(found) > count or (what != "tokens" and len(found) != count):
        raise ModelError(f"the tokenizer has {len(found):,} {what}, there must be {count:,}")
    return found
