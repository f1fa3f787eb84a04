"""Mutated Caffe2 nets: compiled and run, or refused with an error that says why."""

from __future__ import annotations

import random
import re
import zlib
from typing import ClassVar

import afterglow as ag
from afterglow.driver.options import Options
from afterglow.frontends.base import Source
from afterglow.frontends.registry import find_source
from fuzzing.feed import feed_for
from fuzzing.kind import Kind, Setup
from fuzzing.mutate_bytes import mutate_bytes
from tests.frontends.caffe2.files import ODD, odd_net, small_nets

RUN_SHARE = 0.005
"""Of how many examples the model is compiled and run: that takes hundreds of times as long."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Caffe2(Kind):
    """Small Caffe2 nets, one for each operator, with odd numbers or changes in their bytes."""

    name: ClassVar[str] = "caffe2"
    suffix: ClassVar[str] = ".pb"
    about: ClassVar[str] = "Caffe2 nets, binary and text, with mutations of arguments and bytes"
    block: ClassVar[int] = 64

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.nets = small_nets()

    def make(self, seed: int) -> bytes:
        """A net with odd arguments and operands, or with mutations of its bytes or numbers."""
        rng = random.Random(seed)
        net = rng.choice(self.nets)
        if rng.random() < 0.5:
            net = odd_net(net, rng)
        is_text = rng.random() < 0.3
        data = net.text().encode() if is_text else net.binary()
        match rng.randrange(3):
            case 0:
                return mutate_bytes(data, rng, rng.choice(self.nets).binary())
            case 1 if is_text:
                return _other_numbers(data.decode(), rng).encode()
        return data

    def check(self, example: bytes) -> None:
        """The net is read and imported; a few models are compiled and run, too."""
        rng = random.Random(zlib.crc32(example))
        source = find_source(example)
        if source is None:
            return
        shapes = _shapes(source, rng)
        if rng.random() >= RUN_SHARE:
            source.load(Options(shapes=shapes))
            return
        model = ag.compile(example, shapes=shapes, cache=False, threads=1)
        feed = feed_for(model, rng)
        if feed is not None:
            model.run(None, feed)


def _other_numbers(text: str, rng: random.Random) -> str:
    """The text of a net with a few of its numbers replaced."""
    places = list(_NUMBER.finditer(text))
    for place in rng.sample(places, min(len(places), rng.choice([1, 2, 3]))):
        number = str(rng.choice(ODD)).rjust(len(place[0]))[: max(len(place[0]), 1)]
        text = text[: place.start()] + number + text[place.end() :]
    return text


def _shapes(source: Source, rng: random.Random) -> dict[str, tuple[int, ...]]:
    """Small shapes for the inputs: a net declares none, or only some of the extents."""
    shapes = {}
    for info in source.signature(Options()).inputs:
        declared = info.shape or (None,) * rng.randrange(5)
        shapes[info.name] = tuple(
            extent if isinstance(extent, int) else rng.randrange(8) for extent in declared
        )
    return shapes
