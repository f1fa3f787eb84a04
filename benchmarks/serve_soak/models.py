"""The models of the load, with inputs whose right answers ONNX Runtime has given before."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from afterglow.text import Generator
from afterglow.types import Array
from tests.frontends.gguf.files import gguf_bytes
from tests.frontends.language.models import llama_metadata, llama_weights
from tests.serve.models import DOUBLE, LOOKUP, PAIR, TRIPLE, save

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
TURNING = "turning"
"""The model that is unloaded and loaded again."""
SWAPPED = "swapped"
"""The model whose file is replaced: it gives twice or three times its input."""
TEXT = "tiny"
PROMPTS = ("ab", "cd", "abcdef", "dcba")
TOKENS = 6
POOL = 16
"""Inputs of each model."""
TOLERANCE = 1e-3
DATATYPES = {"float32": "FP32", "int64": "INT64", "int32": "INT32"}
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


@dataclass(frozen=True)
class Question:
    """Inputs of a model, and the outputs that are right for them."""

    model: str
    inputs: dict[str, Array]
    outputs: dict[str, Array]

    def problem(self, found: dict[str, Array]) -> str:
        """What is wrong with an answer; "" if nothing is."""
        for name, right in self.outputs.items():
            given = found.get(name)
            if given is None or given.shape != right.shape:
                return f"{self.model}: {name} is {None if given is None else given.shape}"
            if not np.allclose(given, right, rtol=TOLERANCE, atol=TOLERANCE):
                return f"{self.model}: {name} differs by {np.abs(given - right).max()}"
        return ""


@dataclass(frozen=True)
class SoakModel:
    """A model with questions of one row."""

    name: str
    questions: Sequence[Question]
    most_rows: int

    def question(self, chance: random.Random) -> Question:
        """A question of one or more rows."""
        rows = [chance.choice(self.questions) for _ in range(chance.randint(1, self.most_rows))]

        def joined(arrays: Sequence[dict[str, Array]]) -> dict[str, Array]:
            return {name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]}

        return Question(
            self.name, joined([r.inputs for r in rows]), joined([r.outputs for r in rows])
        )


def make_folder(folder: Path, more: Sequence[Path]) -> list[SoakModel]:
    """Write all models into a folder; those that answer all the time are returned."""
    small = [("double", DOUBLE), ("pair", PAIR), ("lookup", LOOKUP)]
    paths = [save(folder, f"{name}.onnx", text) for name, text in small]
    paths += [Path(shutil.copy(path, folder)) for path in (DIGITS, *more)]
    save(folder, f"{TURNING}.onnx", DOUBLE)
    save(folder, f"{SWAPPED}.onnx", DOUBLE)
    metadata = llama_metadata(**{"tokenizer.chat_template": TEMPLATE})
    (folder / f"{TEXT}.gguf").write_bytes(gguf_bytes(metadata, llama_weights()))
    return [_with_answers(path) for path in paths]


def replace_swapped(folder: Path, number: int) -> None:
    """Replace the file of a model, as `mv` does."""
    text = (DOUBLE, TRIPLE)[number % 2]
    save(folder.parent, "new.onnx", text).replace(folder / f"{SWAPPED}.onnx")


def right_texts(folder: Path) -> dict[str, str]:
    """What the language model says to each prompt."""
    generator = Generator(folder / f"{TEXT}.gguf", threads=1)
    return {prompt: generator.generate(prompt, TOKENS).text for prompt in PROMPTS}


def _with_answers(path: Path) -> SoakModel:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    chance = np.random.default_rng(0)
    names = [each.name for each in session.get_outputs()]
    questions = []
    for _ in range(POOL):
        feed = {each.name: _example(each, chance) for each in session.get_inputs()}
        found = dict(zip(names, session.run(names, feed), strict=True))
        questions.append(Question(path.stem, feed, found))
    is_free = isinstance(session.get_inputs()[0].shape[0], str)
    return SoakModel(path.stem, questions, 3 if is_free else 1)


def _example(info: Any, chance: np.random.Generator) -> Array:
    shape = [extent if isinstance(extent, int) else 1 for extent in info.shape]
    if info.type == "tensor(int64)":
        return chance.integers(0, 3, shape)
    return chance.standard_normal(shape).astype(np.float32)
