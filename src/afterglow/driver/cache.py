"""The cache on disk: object code of kernels, and whole models as they were compiled.

Everything lies under a digest of what it was made from, so nothing has to be invalidated: another
model, other options, another machine or another version of Afterglow ask for something else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.backends.cpu import Module, Target, compile_module
from afterglow.driver.options import Options
from afterglow.runtime.saved import read_versions, save_versions
from afterglow.runtime.version import Version
from afterglow.support.atomic_file import PART_SUFFIX
from afterglow.support.disk_cache import DiskCache
from afterglow.support.errors import UnsupportedError, UsageError

KERNELS_LIMIT = 512 << 20
"""Bytes of object code that are kept."""
MODELS_LIMIT = 4 << 30
"""Bytes of compiled models that are kept."""
LARGEST_MODEL = 1 << 30
"""A model whose constants are larger is not kept: it would push out all others."""
_ABANDONED_AFTER = 3600.0
"""Seconds after which a file that is still being written has lost its writer."""
_RECENT = 2.0
"""Seconds for which a file may be changed again without its times telling."""


class CompileCache:
    """The cache in one folder; where it cannot be written, everything is made anew."""

    def __init__(self, folder: Path) -> None:
        self.kernels = DiskCache(folder / "kernels", KERNELS_LIMIT)
        self.digests = DiskCache(folder / "digests", 1 << 20)
        self.winners = DiskCache(folder / "winners", 1 << 20)
        self.models = folder / "models"

    def compile(self, module: Module, target: Target) -> bytes:
        """Object code of a module, made only if it is not there."""
        key = digest_of_texts([version("llvmlite"), repr(target), module.text])
        code = self.kernels.get(key)
        if code is None:
            code = compile_module(module, target)
            self.kernels.put(key, code)
        return code

    def digest_of_file(self, path: Path) -> str:
        """The digest of a file's content; not read again while the file is as it was."""
        status = path.stat()
        times = (status.st_mtime_ns, status.st_ctime_ns)
        if time.time() - max(times) / 1e9 < _RECENT:
            return _content_digest(path)
        identity = (status.st_dev, status.st_ino, status.st_size, *times)
        key = digest_of_texts([str(path.resolve()), repr(identity)])
        known = self.digests.get(key)
        if known is None:
            known = _content_digest(path).encode()
            self.digests.put(key, known)
        return known.decode()

    def find(self, key: str, options: Options) -> Version | None:
        """What was kept under a key, if it is there and whole."""
        path = self._path(key)
        try:
            saved = read_versions(path, options.threads, verify=True, perf_map=options.perf_map)
        except UsageError:
            with contextlib.suppress(OSError):
                path.unlink()  # damaged, or of another format: if it was there at all
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return saved.versions[0]

    def keep(self, key: str, compiled: Version) -> None:
        """Keep a version under a key, if it can be saved."""
        if compiled.compiled.memory.weight_bytes > LARGEST_MODEL:
            return
        try:
            self.models.mkdir(mode=0o700, parents=True, exist_ok=True)
            save_versions(
                self._path(key), compiled.signature, [compiled], is_static=True, durable=False
            )
            self._make_room()
        except (OSError, UnsupportedError):
            return

    def _path(self, key: str) -> Path:
        return self.models / f"{key}.agc"

    def _make_room(self) -> None:
        """Remove the models that were not used for the longest time, until the others fit."""
        for part in self.models.glob(f".*{PART_SUFFIX}"):
            if part.stat().st_mtime < time.time() - _ABANDONED_AFTER:
                part.unlink(missing_ok=True)
        found = [(p.stat().st_mtime, p.stat().st_size, p) for p in self.models.glob("*.agc")]
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= MODELS_LIMIT:
                return
            path.unlink(missing_ok=True)
            total -= size


def model_key(digest: str, options: Options) -> str:
    """What a model compiled with options is kept under."""
    values = [f"{name} {_content(value)}" for name, value in options.values.items()]
    bound = [f"{name} {tuple(shape)}" for name, shape in sorted(options.shapes.items())]
    dims = [f"{name} {extent}" for name, extent in sorted(options.dims.items())]
    flags = f"{options.optimize} {options.lend_inputs} {options.max_arena}"
    choice = f"{options.policy} {options.tune}"
    target = repr(Target.of(options.target))
    part = repr(options.part)
    return digest_of_texts(
        [digest, _build(), target, flags, choice, part, *bound, *dims, *sorted(values)]
    )


def _content(value: Any) -> str:
    """A text that is equal for equal values: of arrays, lists of them, and nothing."""
    if isinstance(value, (list, tuple)):
        return repr([_content(element) for element in value])
    if not isinstance(value, np.ndarray):
        return repr(value)
    elements = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
    return f"{value.dtype} {value.shape} {digest_of_bytes(elements)}"


def digest_of_texts(texts: Iterable[str]) -> str:
    """A digest that tells every sequence of texts from every other."""
    return digest_of_bytes("".join(f"{len(text)} {text}" for text in texts).encode())


def digest_of_bytes(data: bytes) -> str:
    """A digest of bytes."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def _content_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _build() -> str:
    """This build of Afterglow: its version, and the times of its files where they are edited."""
    root = Path(__file__).parent.parent
    files: Sequence[Path] = sorted(root.rglob("*.py"))
    states = [f"{p.relative_to(root)} {p.stat().st_size} {p.stat().st_mtime_ns}" for p in files]
    return digest_of_texts([version("afterglow"), version("llvmlite"), *states])
