"""Bundles between guard pages: arena, weights, inputs and outputs, each to the byte."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import afterglow as ag
from afterglow.types.dtype import DTYPES
from fuzzing.cases import case_of, hostile_values
from fuzzing.compare import compare
from fuzzing.guard_pages import Guarded
from fuzzing.hostile import compiled, mnemonics
from fuzzing.kind import Kind, Skipped
from fuzzing.program import ProgramExample, unpacked

STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t)
FOR = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, STEP, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t
)


class GuardedBundles(Kind):
    """Cases of the op tables as bundles, with inputs in range and out of it."""

    name: ClassVar[str] = "guarded"
    suffix: ClassVar[str] = ".npz"
    about: ClassVar[str] = "bundles whose memory lies between guard pages"
    block: ClassVar[int] = 8

    def make(self, seed: int) -> bytes:
        """A case with its own inputs, or with hostile numbers in them."""
        case, rng = case_of(seed // self.block), random.Random(seed)
        example = hostile_values(case, rng)
        if seed % self.block < 2:
            own = {f"x{i}": x for i, x in enumerate(case.inputs()) if x is not None}
            example = ProgramExample(example.text, inputs=own)
        return example.packed()

    def check(self, example: bytes) -> None:
        """No access out of bounds, by one thread or several, and the numbers of the model."""
        program = unpacked(example)
        entry = bundled(program.text)
        want = compiled("cpu", program.text).run(None, program.inputs)
        if entry.description["states"]:
            raise Skipped("it has states")
        what = f"bundle and model {self.label(example)}"
        for at_end, team in product((True, False), repeat=2):
            compare(what, entry.run(program.inputs, at_end=at_end, team=team), want, 1e-2)

    def label(self, example: bytes) -> str:
        """The op."""
        return " ".join(dict.fromkeys(mnemonics(unpacked(example).text)))


@dataclass(frozen=True)
class Entry:
    """The function of a bundle, loaded."""

    library: ctypes.CDLL
    description: Mapping[str, Any]
    weights: Any
    alignment: int

    def run(self, inputs: Mapping[str, Any], *, at_end: bool, team: bool) -> list[Any]:
        """Run once with all memory at the end, or at the beginning, of what may be touched."""
        entry, align = self.description, self.alignment
        given = [Guarded.holding(inputs[port["name"]], at_end=at_end) for port in entry["inputs"]]
        made = [Guarded(port["bytes"], at_end=at_end) for port in entry["outputs"]]
        blocks = [*given, *made]
        io = (ctypes.c_void_p * len(blocks))(*(block.address for block in blocks))
        arena = Guarded(entry["arena_bytes"], at_end=at_end, alignment=align)
        weights = Guarded.holding(self.weights, at_end=at_end, alignment=align)
        scratch = Guarded(entry["scratch_bytes"], at_end=at_end, alignment=align)
        arguments = [ctypes.addressof(io), arena.address, weights.address]
        name = f"{entry['prefix']}_run"
        members = _team(scratch.address)
        if team:
            name, arguments = f"{name}_team", [*arguments, ctypes.addressof(members)]
        function = getattr(self.library, name)
        function.argtypes, function.restype = [ctypes.c_void_p] * len(arguments), ctypes.c_int32
        status = function(*arguments)
        if status != 0:
            raise ag.AfterglowError(f"the bundle refuses it with status {status}")
        return [
            block.array(DTYPES[port["dtype"]].numpy, tuple(port["shape"]))
            for block, port in zip(made, entry["outputs"], strict=True)
        ]


def _team(scratch: int) -> Any:
    """A team that does one unit at a time, the last one first."""

    def parallel_for(_: int, step: Any, bases: int, units: int, __: int) -> None:
        for unit in reversed(range(units)):
            step(bases, scratch, unit, unit + 1)

    return (FOR * 1)(FOR(parallel_for))


@lru_cache(2)
def bundled(text: str) -> Entry:
    """A program as a bundle, linked and loaded."""
    model = compiled("cpu", text)
    with tempfile.TemporaryDirectory() as folder:
        compiler = shutil.which("cc")
        bundle = model.export_bundle(folder, name="net", shared=compiler is None)
        library = bundle.library or Path(folder) / "libnet.so"
        if compiler is not None:  # as zig does, in a tenth of the time
            objects = [compiler, "-shared", "-o", str(library), f"{folder}/net.o"]
            subprocess.run(objects, check=True)
        about = bundle.description
        weights = np.fromfile(Path(folder) / about["weights"]["file"], np.uint8)
        align = about["weights"]["align"]
        return Entry(ctypes.CDLL(str(library)), about["entries"][0], weights, align)
