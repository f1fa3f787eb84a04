"""Text metadata from the files beside a model, as transformers, optimum and genai write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from afterglow.runtime.text_metadata import TextMetadata
from afterglow.support.errors import ModelError

TOKENIZER = "tokenizer.json"
MOST_BYTES = 1 << 28
"""A file beyond this size is none of these."""


def folder_metadata(folder: Path) -> TextMetadata:
    """What the files of a folder say about texts; nothing where there is no file."""
    written = _read_text(folder / TOKENIZER)
    settings = _read_json(folder / "tokenizer_config.json")
    config = _read_json(folder / "config.json")
    generation = _read_json(folder / "generation_config.json")
    genai = _object(_read_json(folder / "genai_config.json").get("model"))
    tokens = _token_numbers(written, folder / TOKENIZER)
    ends = [
        *_numbers(generation.get("eos_token_id")),
        *_numbers(genai.get("eos_token_id")),
        *_numbers(config.get("eos_token_id")),
        *_numbers(tokens.get(_spelling(settings.get("eos_token")))),
    ]
    begins = [
        *_numbers(tokens.get(_spelling(settings.get("bos_token")))),
        *_numbers(genai.get("bos_token_id")),
        *_numbers(config.get("bos_token_id")),
    ]
    return TextMetadata(
        tokenizer={"kind": TOKENIZER, "json": written} if written else {},
        name=folder.resolve().name,
        context=next(
            iter(
                [
                    *_numbers(genai.get("context_length")),
                    *_numbers(config.get("max_position_embeddings")),
                ]
            ),
            0,
        ),
        bos=begins[0] if begins else None,
        eos=tuple(dict.fromkeys(ends)),
        add_bos=settings.get("add_bos_token") is True,
        chat_template=_template(folder, settings),
    )


def head_size(folder: Path) -> int | None:
    """The number of elements of an attention head, as the files of a folder say it."""
    genai = _object(_read_json(folder / "genai_config.json").get("model"))
    config = _read_json(folder / "config.json")
    sizes = [
        *_numbers(_object(genai.get("decoder")).get("head_size")),
        *_numbers(config.get("head_dim")),
    ]
    heads, width = (_numbers(config.get(n)) for n in ("num_attention_heads", "hidden_size"))
    if heads and width and heads[0]:
        sizes.append(width[0] // heads[0])
    return sizes[0] if sizes else None


def _template(folder: Path, settings: Mapping[str, Any]) -> str:
    """The chat template: of a file of its own, or of the settings, the default one of several."""
    given = settings.get("chat_template")
    if isinstance(given, list):
        named = {_object(each).get("name"): _object(each).get("template") for each in given}
        given = named.get("default")
    return _read_text(folder / "chat_template.jinja") or (given if isinstance(given, str) else "")


def _token_numbers(written: str, path: Path) -> dict[str, int]:
    """The numbers of the special tokens that a tokenizer.json lists."""
    listed = _parsed(written, path).get("added_tokens") if written else None
    entries = [_object(each) for each in listed] if isinstance(listed, list) else []
    return {
        each["content"]: each["id"]
        for each in entries
        if isinstance(each.get("content"), str) and isinstance(each.get("id"), int)
    }


def _spelling(token: Any) -> str:
    """A token as settings name it: a text, or an object with the text in it."""
    spelled = token.get("content") if isinstance(token, Mapping) else token
    return spelled if isinstance(spelled, str) else ""


def _numbers(given: Any) -> list[int]:
    """A token number, or several; anything else is none."""
    listed = given if isinstance(given, list) else [given]
    return [each for each in listed if isinstance(each, int) and not isinstance(each, bool)]


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_json(path: Path) -> Mapping[str, Any]:
    text = _read_text(path)
    return _parsed(text, path) if text else {}


def _parsed(text: str, path: Path) -> Mapping[str, Any]:
    try:
        return _object(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {error}") from None


def _read_text(path: Path) -> str:
    """The text of a file; empty if there is none."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read {path}: {error}") from None
