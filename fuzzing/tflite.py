"""Mutated TFLite files: compiled and run, or refused with an error that says why."""

from __future__ import annotations

import random
import struct
import zlib
from typing import ClassVar

import afterglow as ag
from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.registry import find_source
from fuzzing.feed import feed_for
from fuzzing.kind import Kind, Setup
from fuzzing.mutate_bytes import mutate_bytes
from tests.frontends.tflite.cases import all_cases
from tests.frontends.tflite.files import odd_file, small_files

NUMBERS = [0, 1, 2, 3, 4, 8, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1]
RUN_SHARE = 0.02
"""Of how many examples the model is compiled and run: that takes a hundred times as long."""


class Tflite(Kind):
    """Small TFLite files, one for each op, with odd numbers or changes in their bytes."""

    name: ClassVar[str] = "tflite"
    suffix: ClassVar[str] = ".tflite"
    about: ClassVar[str] = "TFLite files with mutations of offsets, numbers and bytes"
    block: ClassVar[int] = 64

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.cases = all_cases()
        self.files = small_files()

    def make(self, seed: int) -> bytes:
        """A file with odd numbers, or with mutations of offsets, counts and bytes."""
        rng = random.Random(seed)
        if rng.random() < 0.4:
            return odd_file(rng.choice(self.cases), rng)
        data = rng.choice(self.files)
        if rng.random() < 0.4:
            return _identified(mutate_bytes(data, rng, rng.choice(self.files)))
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 3])):
            place = 4 * rng.randrange(len(changed) // 4)
            (old,) = struct.unpack_from("<I", changed, place)
            near = old + rng.choice([-4, -1, 1, 4, 16, -16])
            new = rng.choice([near, rng.choice(NUMBERS), rng.randrange(len(changed))])
            struct.pack_into("<I", changed, place, new % 2**32)
        return _identified(bytes(changed))

    def check(self, example: bytes) -> None:
        """The file is read and imported; a few models are compiled and run, too."""
        rng = random.Random(zlib.crc32(example))
        if rng.random() >= RUN_SHARE:
            source = find_source(example)
            ModelImporter(source.model, Binding()).run()  # type: ignore[union-attr]  # it is TFLite's
            return
        model = ag.compile(example, cache=False, threads=1)
        feed = feed_for(model, rng)
        if feed is not None:
            model.run(None, feed)


def _identified(data: bytes) -> bytes:
    """The bytes as a file that is known to be TFLite's."""
    return data[:4] + b"TFL3" + data[8:]
