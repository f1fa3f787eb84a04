"""Corpora: models with inputs, a thousand to a zip file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

PER_FILE = 1000


@dataclass(frozen=True)
class Example:
    """An ONNX model with a set of inputs for it."""

    name: str
    model: bytes
    inputs: Mapping[str, Any]

    def packed(self) -> bytes:
        """The example as one zip file, which `unpacked` reads."""
        room = io.BytesIO()
        with zipfile.ZipFile(room, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, self)
        return room.getvalue()


def unpacked(data: bytes) -> Example:
    """The example in a zip file that holds one."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _read(archive, _names(archive)[0])


def write_corpus(folder: Path, examples: Iterable[Example]) -> Iterator[int]:
    """Write examples into zip files of a folder, and yield how many there are after each file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    rest = iter(examples)
    while group := list(islice(rest, PER_FILE)):
        path = folder / f"{group[0].name}.zip"
        unfinished = path.with_suffix(".part")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for example in group:
                _add(archive, example)
        unfinished.rename(path)
        written += len(group)
        yield written


class Corpus:
    """The examples in the zip files of a folder, by number."""

    def __init__(self, folder: Path) -> None:
        self.entries = [
            (path, name) for path in sorted(folder.glob("*.zip")) for name in _names(_archive(path))
        ]

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> Example:
        path, name = self.entries[index]
        return _read(_archive(path), name)


@lru_cache(16)
def _archive(path: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [name[:-5] for name in archive.namelist() if name.endswith(".onnx")]


def _add(archive: zipfile.ZipFile, example: Example) -> None:
    archive.writestr(f"{example.name}.onnx", example.model)
    room = io.BytesIO()
    np.savez(room, **example.inputs)
    archive.writestr(f"{example.name}.npz", room.getvalue())


def _read(archive: zipfile.ZipFile, name: str) -> Example:
    with np.load(io.BytesIO(archive.read(f"{name}.npz"))) as stored:
        inputs = {key: stored[key] for key in stored.files}
    return Example(name, archive.read(f"{name}.onnx"), inputs)
