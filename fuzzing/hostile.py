"""Hostile inputs for every op: odd numbers, types and calls, on both backends."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar

import afterglow as ag
from afterglow.graph import parse_module
from afterglow.runtime import CompiledModel
from fuzzing.cases import ODD, case_of, hostile_call, hostile_types, hostile_values
from fuzzing.kind import Kind, Mismatch
from fuzzing.program import ProgramExample, unpacked

Maker = Callable[[Any, random.Random], ProgramExample]
MAKERS: list[Maker] = [*[hostile_values] * 14, *[hostile_types] * 3, *[hostile_call] * 3]


class Hostile(Kind):
    """Cases of the op tables with inputs that nobody should give."""

    name: ClassVar[str] = "hostile"
    suffix: ClassVar[str] = ".npz"
    about: ClassVar[str] = "odd numbers, types and calls for every op"
    block: ClassVar[int] = 40

    def make(self, seed: int) -> bytes:
        """A call of a case; a block of seeds is of one case, which is then compiled once."""
        case = case_of(seed // self.block)
        rng = random.Random(seed)
        return rng.choice(MAKERS)(case, rng).packed()

    def check(self, example: bytes) -> None:
        """Both backends run it or refuse it."""
        program = unpacked(example)
        feed = {**program.inputs, **{name: ODD[word] for name, word in program.odd.items()}}
        refusals = [_run(backend, program.text, feed) for backend in ("cpu", "interpreter")]
        if (refusals[0] is None) != (refusals[1] is None):
            op = _op(program.text)
            raise Mismatch(f"one backend refuses {op}", f"cpu: {refusals[0]}\n\n{refusals[1]}")
        if refusals[0] is not None:
            raise refusals[0]

    def label(self, example: bytes) -> str:
        """The op."""
        return _op(unpacked(example).text)


def _run(backend: str, text: str, feed: Mapping[str, Any]) -> ag.AfterglowError | None:
    """The error with which a backend refuses a call, if it does."""
    try:
        compiled(backend, text).run(None, feed)
    except ag.AfterglowError as error:
        return error
    return None


@lru_cache(8)
def compiled(backend: str, text: str) -> CompiledModel:
    """A program of the op tables, compiled."""
    return ag.compile(parse_module(text), cache=False, threads=1, backend=backend)


def _op(text: str) -> str:
    """The mnemonics in the main function of a program."""
    return " ".join(dict.fromkeys(mnemonics(text)))


def mnemonics(text: str) -> Iterator[str]:
    """The ops of the nodes in a program's text, in order."""
    for line in text.splitlines():
        left, equals, right = line.partition(" = ")
        if equals and left.startswith("  %"):
            yield right.partition("(")[0]
