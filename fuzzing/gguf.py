"""Mutated GGUF files and Hugging Face folders: loaded, or refused with an error that says why."""

from __future__ import annotations

import json
import random
import struct
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from afterglow.driver.options import Options
from afterglow.frontends.registry import find_source
from fuzzing.kind import Kind, Setup
from fuzzing.mutate_bytes import mutate_bytes
from tests.frontends.gguf.files import Blocks, gguf_bytes, q4_0, q8_0
from tests.frontends.huggingface.files import CONFIG, folder_tensors, safetensors
from tests.frontends.language.models import llama_metadata, llama_weights, quantized

NUMBERS = [0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1]
LARGE = [*NUMBERS, 2**40, 2**60, 2**63 - 1, 2**63, 2**64 - 1]
TEXTS = ["", "llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3", "mamba", "yarn", "linear"]


class Gguf(Kind):
    """Small GGUF files, with odd metadata or changes in their bytes."""

    name: ClassVar[str] = "gguf"
    suffix: ClassVar[str] = ".gguf"
    about: ClassVar[str] = "GGUF files with mutations of metadata, counts, offsets and bytes"
    block: ClassVar[int] = 64

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.weights = llama_weights()
        stores = (lambda a: a, lambda a: a.astype(np.float16), q8_0, q4_0)
        kinds = [quantized(self.weights, store) for store in stores]
        self.files = [gguf_bytes(llama_metadata(), kind) for kind in kinds]

    def make(self, seed: int) -> bytes:
        """A file with odd metadata or tensors, or with mutations of its header."""
        rng = random.Random(seed)
        if rng.random() < 0.4:
            return self._odd(rng)
        data = rng.choice(self.files)
        head = data[: rng.choice([64, 512, 9000])]
        if rng.random() < 0.3:
            return b"GGUF" + mutate_bytes(head, rng, data[:512])[4:] + data[len(head) :]
        changed = bytearray(head)
        for _ in range(rng.choice([1, 1, 2, 3])):
            place = rng.randrange(4, len(changed) - 8)
            struct.pack_into("<Q", changed, place, rng.choice(LARGE))
        return bytes(changed) + data[len(head) : rng.choice([len(data), len(data) // 2])]

    def _odd(self, rng: random.Random) -> bytes:
        """A whole file that says something odd."""
        metadata = llama_metadata()
        for key in rng.sample([*metadata], rng.choice([1, 1, 2])):
            metadata[key] = _odd_value(metadata[key], rng)
        if rng.random() < 0.3:
            metadata["llama.rope.scaling.type"] = rng.choice(TEXTS)
            metadata["llama.rope.scaling.factor"] = rng.choice([0.0, 0.5, 4.0, 1e30])
        tensors: dict[str, Any] = dict(self.weights)
        if rng.random() < 0.5:
            name = rng.choice([*tensors])
            tensors[name] = Blocks(rng.randrange(45), tensors[name].shape, rng.randbytes(4096))
        return gguf_bytes(metadata, tensors)

    def check(self, example: bytes) -> None:
        """The file is read, and its graph built."""
        _load(example)


class HuggingFace(Kind):
    """Small folders of Hugging Face, with odd configs or changes in headers."""

    name: ClassVar[str] = "huggingface"
    suffix: ClassVar[str] = ".folder"
    about: ClassVar[str] = "folders with mutations of config.json and of safetensors"
    block: ClassVar[int] = 64

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.folder = Path(setup.scratch) / "huggingface"
        self.folder.mkdir(exist_ok=True)
        self.tensors = safetensors(folder_tensors())

    def make(self, seed: int) -> bytes:
        """The length of a config, the config, and the weights."""
        rng = random.Random(seed)
        config: dict[str, Any] = dict(CONFIG)
        tensors = self.tensors
        if rng.random() < 0.6:
            for key in rng.sample([*config], rng.choice([1, 1, 2])):
                config[key] = _odd_value(config[key], rng)
            scaling = {"type": rng.choice(TEXTS), "factor": rng.choice([0, 0.5, 4, 1e30])}
            config["rope_scaling"] = rng.choice([None, None, {}, scaling, 3])
        else:
            tensors = mutate_bytes(tensors[:3000], rng, tensors[:300]) + tensors[3000:]
        text = json.dumps(config).encode()
        text = mutate_bytes(text, rng, text) if rng.random() < 0.2 else text
        return struct.pack("<I", len(text)) + text + tensors

    def check(self, example: bytes) -> None:
        """The folder is read, and its graph built."""
        (size,) = struct.unpack_from("<I", example)
        (self.folder / "config.json").write_bytes(example[4 : 4 + size])
        (self.folder / "model.safetensors").write_bytes(example[4 + size :])
        _load(self.folder)


def _odd_value(value: Any, rng: random.Random) -> Any:
    """Something else of the same type, or of another."""
    if rng.random() < 0.2:
        return rng.choice([True, "", "x", 0, -1.0, float("nan"), [1, 2], ["a"]])
    match value:
        case bool() | str():
            return rng.choice(TEXTS)
        case int():
            return rng.choice([value + 1, value - 1 if value else 0, *NUMBERS])
        case float():
            return rng.choice([0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan")])
        case list():
            return value[: rng.randrange(len(value))] or [0]
    return value


def _load(model: bytes | Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = find_source(model)
        assert source is not None
        source.load(Options(max_memory=1 << 28))
