"""The folder of models: which models and versions it has, without reading them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

from afterglow.support.lazy_dataclass import dataclass

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}")
"""What a model may be called."""
_VERSION = re.compile(r"[1-9][0-9]{0,8}")


class ModelKind(Enum):
    """What a file is for."""

    TENSORS = "tensors"
    TEXT = "text"


SUFFIXES = {
    ".agc": ModelKind.TENSORS,
    ".onnx": ModelKind.TENSORS,
    ".tflite": ModelKind.TENSORS,
    ".gguf": ModelKind.TEXT,
}
"""What models are found by; if there are several of one name, the first of these is served."""


@dataclass(frozen=True)
class FoundModel:
    """A version of a model in the folder."""

    name: str
    version: str
    path: Path
    kind: ModelKind
    stamp: tuple[int, int, int]
    """Changes when the file does."""


def scan(root: Path, versions: str = "latest") -> dict[str, dict[str, FoundModel]]:
    """The models of a folder, by name and version; links that lead out of it are left out."""
    root = root.resolve()
    found: dict[str, dict[str, FoundModel]] = {}
    for path in sorted(root.iterdir(), key=_order):
        name = path.name if path.is_dir() else path.stem
        if not NAME.fullmatch(name) or name in found:
            continue
        own = {each.version: each for each in _models_at(root, path, name)}
        if own:
            newest = max(own, key=int)
            found[name] = own if versions == "all" else {newest: own[newest]}
    return dict(sorted(found.items()))


def _order(path: Path) -> tuple[int, str]:
    known = [*SUFFIXES]
    return (known.index(path.suffix) if path.suffix in known else len(known), path.name)


def _models_at(root: Path, path: Path, name: str) -> Iterator[FoundModel]:
    """The versions of the model that a file or folder is."""
    if path.is_file():
        yield from _found(root, [path], name, "1")
    elif (path / "config.json").is_file():
        yield from _found(root, [path / "config.json"], name, "1")
    elif path.is_dir():
        for inner in path.iterdir():
            if _VERSION.fullmatch(inner.name) and inner.is_dir():
                files = [inner / f"model{suffix}" for suffix in SUFFIXES]
                yield from _found(root, [*files, inner / "config.json"], name, inner.name)


def _found(root: Path, files: Iterable[Path], name: str, version: str) -> Iterator[FoundModel]:
    """The first of some files that is a model within the folder."""
    for file in files:
        is_text = file.name == "config.json"
        kind = ModelKind.TEXT if is_text else SUFFIXES.get(file.suffix)
        resolved = file.resolve()
        if kind is None or not resolved.is_relative_to(root) or not resolved.is_file():
            continue
        status = os.stat(resolved)
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        path = resolved.parent if is_text else resolved
        yield FoundModel(name, version, path, kind, stamp)
        return
