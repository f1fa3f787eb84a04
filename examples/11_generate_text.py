"""Lesson 11: text generation. A language model keeps its past, and a generator drives it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper, parser

import afterglow as ag

LETTERS = "_ abcdefghijklmnopqrstuvwxyz"
WIDTH = 32


def language_model() -> onnx.ModelProto:
    """One layer of attention with random weights, and its keys and values as past and present."""
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["": 23]>
        letters (int64[1, new] input_ids, float[1, 2, past, 16] past_key,
                 float[1, 2, past, 16] past_value)
             => (float[1, new, 28] logits, float[1, 2, both, 16] present_key,
                 float[1, 2, both, 16] present_value) {
            x = Gather (table, input_ids)
            q = MatMul (x, wq)
            k = MatMul (x, wk)
            v = MatMul (x, wv)
            y, present_key, present_value = Attention <
                is_causal = 1, q_num_heads = 2, kv_num_heads = 2
            > (q, k, v, , past_key, past_value)
            logits = MatMul (y, out)
        }""")
    random = np.random.default_rng(0)
    square = (WIDTH, WIDTH)
    shapes = {"table": (28, WIDTH), "wq": square, "wk": square, "wv": square, "out": (WIDTH, 28)}
    for name, shape in shapes.items():
        array = random.standard_normal(shape).astype(np.float32) / 2
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


class Letters:
    """A tokenizer: a token for each letter. Real models bring their own."""

    vocabulary = len(LETTERS)

    def encode(self, text: str, *, bos: bool | None = None) -> list[int]:
        return [0, *map(LETTERS.index, text)]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(LETTERS[token] for token in tokens)

    def piece(self, token: int) -> str:
        return LETTERS[token]

    def stream(self) -> Letters:
        return self

    def push(self, token: int) -> str:
        return LETTERS[token]

    def finish(self) -> str:
        return ""


if __name__ == "__main__":
    generator = ag.text.Generator(
        language_model(), tokenizer=Letters(), context=100, sequences=3, draft="ngram"
    )
    for piece in generator.stream("once upon", 24):
        print(piece, end="")  # as they come
    print()
    for result in generator.generate(["a dog", "the cat", "no"], 12, temperature=1.0, seed=1):
        print(f"{result.text!r}: {result.finish_reason}, {result.accepted} tokens by drafts")
    vowels = [LETTERS.index(letter) for letter in "aeiou "]
    print(generator.generate("sing", 12, mask=lambda tokens: vowels).text)
    again = generator.generate("a dog", 12, temperature=1.0, seed=1)
    print("the same seed, alone:", repr(again.text))
