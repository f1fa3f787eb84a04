"""A small language model in NumPy, and a tokenizer of letters: quick, exact, with real caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.types import Array

LETTERS = "_abcdefghijklmnopqrstuvwxyz .,!"


class FakeDecoder:
    """Logits depend on all tokens of a sequence up to their own, by way of its cache.

    It refuses steps that the contract does not allow, and counts rows and runs.
    """

    def __init__(
        self,
        *,
        vocabulary: int = len(LETTERS),
        context: int = 64,
        sequences: int = 1,
        chunk: int = 16,
        most_wanted: int = 16,
        seed: int = 0,
        width: int = 8,
    ) -> None:
        random = np.random.default_rng(seed)
        self.vocabulary, self.context, self.sequences = vocabulary, context, sequences
        self.chunk, self.most_wanted = chunk, most_wanted
        self.embedding = random.standard_normal((vocabulary, width)).astype(np.float32)
        self.places = random.standard_normal((4 * context, width)).astype(np.float32)
        self.output = random.standard_normal((width, vocabulary)).astype(np.float32) * 3
        self.cache = np.zeros((sequences, 1, context, width), np.float32)
        self.runs = self.rows = 0

    def step(self, tokens: Array, positions: Array, sequences: Array, wanted: Array) -> Array:
        assert 0 < len(tokens) <= self.chunk
        assert 0 < len(wanted) <= self.most_wanted
        assert all(a.dtype == np.int32 for a in (tokens, positions, sequences, wanted))
        self.runs, self.rows = self.runs + 1, self.rows + len(tokens)
        for token, position, sequence in zip(tokens, positions, sequences, strict=True):
            assert 0 <= position < self.context
            self.cache[sequence, 0, position] = np.tanh(
                self.embedding[token] * self.places[position % 7]
            )
        return np.stack([self._logits(positions[row], sequences[row]) for row in wanted])

    def _logits(self, position: int, sequence: int) -> Array:
        seen = self.cache[sequence, 0, : position + 1]
        decay = np.float32(0.7) ** np.arange(position, -1, -1, dtype=np.float32)
        return ((seen * decay[:, None]).sum(0) @ self.output).astype(np.float32)

    def copy(self, source: int, target: int, length: int) -> None:
        self.cache[target, :, :length] = self.cache[source, :, :length]

    def read(self, sequence: int, length: int) -> dict[str, Array]:
        return {"cache": self.cache[sequence, :, :length].copy()}

    def write(self, sequence: int, arrays: Mapping[str, Array]) -> None:
        self.cache[sequence, :, : arrays["cache"].shape[1]] = arrays["cache"]


def greedy(decoder: FakeDecoder, prompt: Sequence[int], count: int) -> list[int]:
    """The likeliest tokens, one run at a time on the whole text."""
    other = FakeDecoder(vocabulary=decoder.vocabulary, context=decoder.context)
    other.__dict__.update(embedding=decoder.embedding, output=decoder.output, chunk=10**6)
    tokens = list(prompt)
    for _ in range(count):
        rows = np.arange(len(tokens), dtype=np.int32)
        last = np.array([len(tokens) - 1], np.int32)
        logits = other.step(np.array(tokens, np.int32), rows, np.zeros_like(rows), last)
        tokens.append(int(logits[0].argmax()))
    return tokens[len(prompt) :]


class LetterTokenizer:
    """A token for each letter; token 0, "_", begins texts."""

    vocabulary = len(LETTERS)

    def encode(self, text: str, *, bos: bool | None = None) -> list[int]:
        tokens = [LETTERS.index(letter) for letter in text]
        return tokens if bos is False else [0, *tokens]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(LETTERS[token] for token in tokens if token)

    def piece(self, token: int) -> str:
        return LETTERS[token]

    def stream(self) -> LetterStream:
        return LetterStream()


class LetterStream:
    """Gives each letter one token late, as a character of several bytes would come."""

    def __init__(self) -> None:
        self.late = ""

    def push(self, token: int) -> str:
        text, self.late = self.late, LETTERS[token] if token else ""
        return text

    def finish(self) -> str:
        return self.late
