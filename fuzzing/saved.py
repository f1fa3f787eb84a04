"""Damaged files of ours: a saved model is refused or right, a damaged cache is never noticed."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx import TensorProto, helper

import afterglow as ag
from afterglow.runtime import CompiledModel
from fuzzing.compare import compare
from fuzzing.kind import Kind, Mismatch, Skipped
from fuzzing.mutate_bytes import mutate_bytes


def _layer(rows: int | str) -> onnx.ModelProto:
    """A layer with weights, and rows of a fixed or a free number."""
    weight = np.linspace(-1, 1, 32 * 16, dtype=np.float32).reshape(32, 16)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["y"])],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 16])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _data_dependent() -> onnx.ModelProto:
    """A model whose shapes data decide, so that it is saved with the rest of its source."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, None])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


BASES: dict[str, Callable[[], onnx.ModelProto]] = {
    "layer": lambda: _layer(4),
    "dynamic": lambda: _layer("n"),
    "data": _data_dependent,
}
INPUT = np.linspace(-2, 2, 4 * 32, dtype=np.float32).reshape(4, 32)


class Saved(Kind):
    """Saved models and cache entries with bytes that were flipped, cut or swapped."""

    name: ClassVar[str] = "saved"
    suffix: ClassVar[str] = ".json"
    about: ClassVar[str] = "saved models and caches with damaged bytes"

    def make(self, seed: int) -> bytes:
        """Which file is damaged, and a seed for how."""
        rng = random.Random(seed)
        where = rng.choice(["file", "file", "cache"])
        return json.dumps({"base": rng.choice(list(BASES)), "where": where, "seed": seed}).encode()

    def check(self, example: bytes) -> None:
        """The damage is found, or does no harm."""
        recipe = json.loads(example)
        check = _check_file if recipe["where"] == "file" else _check_cache
        check(made(recipe["base"]), random.Random(recipe["seed"]))

    def label(self, example: bytes) -> str:
        """The kind of file."""
        return f"{json.loads(example)['where']} {json.loads(example)['base']}"


@dataclass(frozen=True)
class Made:
    """A model with what is right for it: its file, its cache, its outputs."""

    model: bytes
    saved: bytes
    cache: Mapping[Path, bytes]
    outputs: list[Any]


@lru_cache
def made(base: str) -> Made:
    """Compile and save one of the bases."""
    source = BASES[base]().SerializeToString()
    with tempfile.TemporaryDirectory() as folder:
        cache, file = Path(folder) / "cache", Path(folder) / "model.agc"
        model = _compiled(source, cache)
        outputs = model.run(None, {"x": INPUT})
        model.save(file)
        files = [path for path in sorted(cache.rglob("*")) if path.is_file()]
        entries = {path.relative_to(cache): path.read_bytes() for path in files}
        return Made(source, file.read_bytes(), entries, outputs)


def _compiled(source: bytes, cache: Path) -> CompiledModel:
    return ag.compile(source, cache=cache, threads=1)


def _check_file(base: Made, rng: random.Random) -> None:
    damaged = mutate_bytes(base.saved, rng, made(rng.choice(list(BASES))).saved)
    if damaged == base.saved:
        raise Skipped("the damage changes nothing")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.agc"
        path.write_bytes(damaged)
        outputs = ag.load(path).run(None, {"x": INPUT})
    compare("a damaged file computes something else", outputs, base.outputs, 0.0)


def _check_cache(base: Made, rng: random.Random) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        for name, content in base.cache.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / name).write_bytes(_damaged(base, content, rng))
        outputs = _compiled(base.model, folder).run(None, {"x": INPUT})
        compare("a damaged cache computes something else", outputs, base.outputs, 1e-3)
    except ag.AfterglowError as error:
        raise Mismatch("a damaged cache is an error", str(error)) from None
    finally:
        shutil.rmtree(folder)


def _damaged(base: Made, content: bytes, rng: random.Random) -> bytes:
    """The content of a cache's file: as it was, damaged, or that of another file."""
    match rng.randint(0, 3):
        case 0:
            return content
        case 1:
            others = [*base.cache.values(), *made(rng.choice(list(BASES))).cache.values()]
            return rng.choice(others)
    return mutate_bytes(content, rng, base.saved)
