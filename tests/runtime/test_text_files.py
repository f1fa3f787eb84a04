"""Text metadata from the files beside a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afterglow.runtime.text_files import folder_metadata, head_size
from afterglow.runtime.text_metadata import TextMetadata
from afterglow.support.errors import ModelError

TOKENIZER = {"added_tokens": [{"id": 7, "content": "<s>"}, {"id": 8, "content": "</s>"}]}


def write(folder: Path, **files: object) -> None:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def test_a_folder_without_files_says_nothing(tmp_path: Path) -> None:
    assert folder_metadata(tmp_path) == TextMetadata(name=tmp_path.name)
    assert head_size(tmp_path) is None


def test_files_of_transformers(tmp_path: Path) -> None:
    write(
        tmp_path,
        tokenizer=TOKENIZER,
        tokenizer_config={
            "bos_token": {"content": "<s>"},
            "eos_token": "</s>",
            "chat_template": [
                {"name": "tools", "template": "x"},
                {"name": "default", "template": "y"},
            ],
        },
        generation_config={"eos_token_id": [9, 8]},
        config={"max_position_embeddings": 99, "hidden_size": 64, "num_attention_heads": 4},
    )
    found = folder_metadata(tmp_path)
    assert (found.bos, found.eos, found.context, found.chat_template) == (7, (9, 8), 99, "y")
    assert found.tokenizer == {"kind": "tokenizer.json", "json": json.dumps(TOKENIZER)}
    assert head_size(tmp_path) == 16


def test_files_of_genai(tmp_path: Path) -> None:
    model = {
        "bos_token_id": 1,
        "eos_token_id": 2,
        "context_length": 50,
        "decoder": {"head_size": 32},
    }
    write(tmp_path, genai_config={"model": model})
    (tmp_path / "chat_template.jinja").write_text("{{ x }}")
    found = folder_metadata(tmp_path)
    assert (found.bos, found.eos, found.context, found.chat_template) == (1, (2,), 50, "{{ x }}")
    assert head_size(tmp_path) == 32


@pytest.mark.parametrize(
    "content", [[], "x", {"eos_token_id": "two", "max_position_embeddings": []}]
)
def test_what_is_of_another_kind_says_nothing(tmp_path: Path, content: object) -> None:
    write(tmp_path, config=content, genai_config=content, generation_config=content)
    assert folder_metadata(tmp_path).eos == ()


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_damaged_files_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"config\.json"):
        folder_metadata(tmp_path)
