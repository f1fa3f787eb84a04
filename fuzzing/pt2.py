"""Mutated files of `torch.export.save`: read and imported, or refused with an error."""

from __future__ import annotations

import io
import json
import random
import zipfile
import zlib
from pathlib import Path
from typing import Any, ClassVar

import torch

from afterglow.driver.options import Options
from afterglow.frontends.registry import find_source
from afterglow.frontends.torch.archive import check_archive
from fuzzing.kind import Kind, Setup
from fuzzing.mutate_bytes import mutate_bytes

RUN_SHARE = 0.05
"""How many examples PyTorch reads, too: that takes a hundred times as long as looking at them."""
ODD = (None, True, -1, 0, 7, 2**31, 2**63, -(2**63), 1e30, "", "f32", "a b", "1/0", [], {}, [[]])


class Pt2(Kind):
    """Small exported programs with changes in their JSON, in files of the archive, or in bytes."""

    name: ClassVar[str] = "pt2"
    suffix: ClassVar[str] = ".pt2"
    about: ClassVar[str] = "PyTorch's exported programs with mutations of JSON, files and bytes"
    block: ClassVar[int] = 64

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.prepare(setup)
        self.files = [path.read_bytes() for path in sorted(_folder(setup).iterdir())]

    @classmethod
    def prepare(cls, setup: Setup) -> None:
        """Export the programs."""
        folder = _folder(setup)
        if folder.exists():
            return
        folder.mkdir()
        sizes = {"x": {0: torch.export.Dim("batch", max=64)}}
        for number, dynamic in enumerate((None, sizes)):
            program = torch.export.export(_Net(), (torch.ones(3, 4),), dynamic_shapes=dynamic)
            torch.export.save(program, folder / f"{number}.pt2")

    def make(self, seed: int) -> bytes:
        """An archive with a few mutations."""
        rng = random.Random(seed)
        data = rng.choice(self.files)
        return mutate_bytes(data, rng, data) if rng.random() < 0.2 else _other_entry(data, rng)

    def check(self, example: bytes) -> None:
        """The archive is looked through; some are read by PyTorch and imported."""
        rng = random.Random(zlib.crc32(example))
        if rng.random() >= RUN_SHARE:
            check_archive(memoryview(example))
            return
        source = find_source(example)
        if source is not None:
            source.load(Options(shapes={"x": (3, 4)}))


class _Net(torch.nn.Module):
    """A layer, a buffer that is written, and a reshape, whose size is an expression."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 6)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The rows in halves."""
        self.calls += 1
        return torch.relu(self.layer(x)).reshape(-1, 3)


def _folder(setup: Setup) -> Path:
    return setup.scratch / "pt2"


def _other_entry(data: bytes, rng: random.Random) -> bytes:
    """The archive with one of its files changed, as JSON or as bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    is_json = rng.random() < 0.7
    name = rng.choice([name for name in entries if name.endswith(".json") or not is_json])
    if is_json:
        entries[name] = _other_json(entries[name], rng)
    else:
        entries[name] = mutate_bytes(entries[name], rng, data)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for key, content in entries.items():
            archive.writestr(key, content)
    return out.getvalue()


def _other_json(data: bytes, rng: random.Random) -> bytes:
    """One to three places of a document with other values, or without one."""
    root = json.loads(data)
    places: list[tuple[Any, Any]] = []
    waiting = [root]
    while waiting:
        holder = waiting.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder))
        places += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys if isinstance(holder[key], (dict, list))]
    for holder, key in rng.sample(places, min(len(places), rng.choice([1, 1, 2, 3]))):
        if isinstance(holder, dict) and rng.random() < 0.2:
            holder.pop(key)
        else:
            holder[key] = rng.choice(ODD)
    return json.dumps(root).encode()
