"""Hugging Face folders from end to end: the weights of a small Llama, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.frontends.huggingface.safetensors import read_tensors
from afterglow.support.errors import AfterglowError
from afterglow.types import Array
from tests.frontends.huggingface.files import CONFIG, folder_tensors, safetensors
from tests.frontends.language.models import llama_logits, llama_weights

TOKENS = [1, 5, 9, 270, 271, 280]


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
