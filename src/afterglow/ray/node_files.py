"""Models in Ray's object store, and the file that all processes of a node map them from."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import ray

from afterglow.driver.load import load
from afterglow.runtime import CompiledModel
from afterglow.runtime.load import is_saved_model
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class StoredModel:
    """A saved model in the object store of a cluster."""

    content: Any
    """The reference of its bytes."""
    digest: str
    size: int

    def load(self, threads: int | None = None) -> CompiledModel:
        """The model, mapped from a file of this node: weights are in its memory once."""
        return load(self.path(), threads=threads)

    def path(self) -> Path:
        """The file of this node that has it; the first process that asks writes it."""
        path = _folder() / f"{self.digest}.agc"
        if not path.is_file() or path.stat().st_size != self.size:
            _write(path, ray.get(self.content))
        return path


def store(model: str | Path | bytes | CompiledModel | StoredModel) -> StoredModel:
    """Put a model into the object store: a saved file, its bytes, or a compiled model."""
    if isinstance(model, StoredModel):
        return model
    content = _content(model)
    digest = hashlib.sha256(content).hexdigest()
    return StoredModel(ray.put(np.frombuffer(content, np.uint8)), digest, len(content))


def opened(model: str | Path | CompiledModel) -> CompiledModel:
    """A model: one that is compiled as it is, or a saved file."""
    if isinstance(model, CompiledModel):
        return model
    _check_saved(Path(model))
    return load(model)


def _content(model: str | Path | bytes | CompiledModel) -> bytes:
    if isinstance(model, CompiledModel):
        return model.saved_bytes()
    if isinstance(model, bytes):
        return model
    _check_saved(Path(model))
    return Path(model).read_bytes()


def _check_saved(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    if not is_saved_model(path) or path.suffix == ".so":
        raise UsageError(
            f"{path} is no saved model",
            help="compile it once, save it as FILE.agc, and give that: nodes do not compile",
        )


def _folder() -> Path:
    """The folder of a node for models, which is this user's alone: they are code."""
    path = Path(tempfile.gettempdir()) / f"afterglow-ray-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    owner = path.lstat()
    if owner.st_uid != os.getuid() or path.is_symlink() or owner.st_mode & 0o022:
        raise UsageError(
            f"{path} belongs to somebody else, or others may write there",
            help="remove it, or set TMPDIR to another folder on that node",
        )
    return path


def _write(path: Path, content: Any) -> None:
    """Write a file that is whole from the moment that it has its name."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(memoryview(content))
    Path(file.name).replace(path)
