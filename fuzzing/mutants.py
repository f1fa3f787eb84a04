"""Mutated model files: compiled and run, or refused with an error that says why."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import ClassVar

import afterglow as ag
from fuzzing.corpus import Corpus
from fuzzing.feed import feed_for
from fuzzing.kind import Kind, Setup
from fuzzing.mutate import mutate, parsed
from fuzzing.mutate_bytes import mutate_bytes
from fuzzing.reduce import ops_of, smaller_models
from fuzzing.seeds import suite_folder


class Mutants(Kind):
    """Models of ONNX's suite, and of the corpus, with changes in their structure or bytes."""

    name: ClassVar[str] = "mutants"
    suffix: ClassVar[str] = ".onnx"
    about: ClassVar[str] = "model files with mutations of structure and of bytes"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        folders = [suite_folder(setup.scratch), *([setup.corpus] if setup.corpus else [])]
        self.sources = [Corpus(folder) for folder in folders]

    @classmethod
    def prepare(cls, setup: Setup) -> None:
        """Collect the models of the suite."""
        suite_folder(setup.scratch)

    def make(self, seed: int) -> bytes:
        """A model with a few mutations."""
        rng = random.Random(seed)
        first, second = self._source(rng), self._source(rng)
        if rng.random() < 0.15:
            return mutate_bytes(first, rng, second)
        model = parsed(first)
        mutate(model, rng, parsed(second))
        return model.SerializeToString()

    def _source(self, rng: random.Random) -> bytes:
        corpus = self.sources[0] if rng.random() < 0.75 else self.sources[-1]
        return corpus[rng.randrange(len(corpus))].model

    def check(self, example: bytes) -> None:
        """The model is compiled and run; one in four by the interpreter."""
        rng = random.Random(zlib.crc32(example))
        backend = rng.choice(["cpu", "cpu", "cpu", "interpreter"])
        model = ag.compile(example, cache=False, threads=1, backend=backend)
        feed = feed_for(model, rng)
        if feed is not None:
            model.run(None, feed)

    def smaller(self, example: bytes) -> Iterator[bytes]:
        """Models that end earlier."""
        return smaller_models(example)

    def label(self, example: bytes) -> str:
        """The ops, if they can be read."""
        return ops_of(example)
