"""The cache on disk: object code of kernels, and whole models as they were compiled.

Everything lies under a digest of what it was made from, so nothing has to be invalidated: another
model, other options, another machine or another version of Afterglow ask for something else.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.driver.devices import device_failures, device_of, find_device, is_own_backend
from afterglow.driver.options import Options
from afterglow.runtime.saved import read_versions, save_versions
from afterglow.runtime.version import Version
from afterglow.support.atomic_file import PART_SUFFIX
from afterglow.support.digest import digest_of_bytes as digest_of_bytes
from afterglow.support.digest import digest_of_texts as digest_of_texts
from afterglow.support.disk_cache import CACHE_PARTS, DiskCache
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.own_ops import own_ops_digest
from afterglow.support.plugins import BACKENDS, is_added, plugin_module
from afterglow.support.private_folder import make_private
from afterglow.support.regular_file import open_regular, path_inside
from afterglow.types.extent import Dim, dims_of

KERNELS_LIMIT = 512 << 20
"""Bytes of object code that the cache holds at most."""
MODELS_LIMIT = 4 << 30
"""Bytes of compiled models that the cache holds at most."""
SMALL_LIMIT = 1 << 20
"""Bytes of digests, of choices of kernels and of measured rates that the cache holds, of each."""
LARGEST_MODEL = 1 << 30
"""A model whose constants are larger is not cached: it would evict all others."""
LARGEST_SOURCE = 16 << 30
"""A model with a file of more bytes is not cached: computing the key would mean to read them."""
_ABANDONED_AFTER = 3600.0
"""Seconds after which a file that is still being written has lost its writer."""
_RECENT = 2.0
"""Seconds for which a file may be changed again without its times telling."""


class CompileCache:
    """The cache in one folder; where it cannot be written, everything is made anew."""

    def __init__(self, folder: Path) -> None:
        kernels, digests, winners, rates, self.models = (folder / part for part in CACHE_PARTS)
        self.kernels = DiskCache(kernels, KERNELS_LIMIT)
        self.digests = DiskCache(digests, SMALL_LIMIT, warns=False)
        self.winners = DiskCache(winners, SMALL_LIMIT)
        self.rates = DiskCache(rates, SMALL_LIMIT)

    def digest_of_file(self, path: Path) -> str:
        """The digest of a file's content; not read again while the file is as it was.

        Raises `OSError` if it is not a regular file.
        """
        with open_regular(path) as file:
            return self._digest_of_open_file(path, file)

    def _digest_of_open_file(self, path: Path, file: BufferedReader) -> str:
        status = os.fstat(file.fileno())
        times = (status.st_mtime_ns, status.st_ctime_ns)
        if time.time() - max(times) / 1e9 < _RECENT:
            return _content_digest(file)
        identity = (status.st_dev, status.st_ino, status.st_size, *times)
        key = digest_of_texts([str(path.resolve()), repr(identity)])
        known = self.digests.get(key)
        if known is None:
            known = _content_digest(file).encode()
            self.digests.put(key, known)
        return known.decode()

    def digest_of_model(self, path: Path) -> str | None:
        """The digest of a model's file with those beside it that hold its tensors.

        None if it was never noted which ones they are; an `OSError` if one cannot be read, or may
        not, because it is outside of the model's folder.
        """
        own = self.digest_of_file(path)
        noted = self.digests.get(_key_of_files(own))
        return None if noted is None else self._joined_digest(own, path, json.loads(noted))

    def note_files(self, path: Path, names: Sequence[str]) -> str:
        """The same, noting the names of the files beside the model's own."""
        own = self.digest_of_file(path)
        joined = self._joined_digest(own, path, names)
        self.digests.put(_key_of_files(own), json.dumps(names).encode())
        return joined

    def _joined_digest(self, own: str, path: Path, names: Sequence[str]) -> str:
        beside = (self._digest_beside(path, name) for name in names)
        return digest_of_texts([own, *beside])

    def _digest_beside(self, path: Path, name: str) -> str:
        inside = path_inside(path.parent, name)
        if inside is None:
            raise PermissionError(errno.EACCES, "outside of the model's folder", name)
        return self.digest_of_file(inside)

    def find(self, key: str, options: Options) -> Version | None:
        """The model stored under a key, if it is there and undamaged."""
        path = self._path(key)
        try:
            saved = read_versions(path, find_device, options.loading, key=key)
        except UsageError:
            with contextlib.suppress(OSError):
                path.unlink()  # damaged, or of another format: if it was there at all
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return saved.static

    def put(self, key: str, compiled: Version, made: Mapping[str, Any] | None = None) -> None:
        """Store a version under a key, if it can be saved; `made` says what it was made from."""
        if compiled.compiled.memory.weight_bytes > LARGEST_MODEL:
            return
        try:
            make_private(self.models)
            path = self._path(key)
            save_versions(path, compiled.signature, compiled, key=key, made=made, durable=False)
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


def is_cacheable(options: Options) -> bool:
    """Whether a model that is compiled with options is cached."""
    is_lasting = not any(is_added(BACKENDS, backend) for backend in _backends(options))
    is_known = options.placing is None or options.placing.is_data
    return is_lasting and is_known and not options.verify and not options.instruments


def _backends(options: Options) -> list[str]:
    """The backends that compile a model."""
    return [options.backend, *(device.backend for device in options.devices)]


def model_key(digest: str, options: Options) -> str:
    """The key of a model compiled with options."""
    values = [f"{name} {_content(value)}" for name, value in options.values.items()]
    bound = [f"{name} {_extents(*shape)}" for name, shape in sorted(options.shapes.items())]
    dims = [f"{name} {_extents(extent)}" for name, extent in sorted(options.dims.items())]
    flags = f"{options.optimize} {options.donate_inputs} {options.max_arena} {options.max_memory}"
    flags = f"{flags} {options.checkpoint}"
    profile = "" if options.profile is None else options.profile.digest
    rounding = "" if options.rounding is None else options.rounding.digest
    precision = f"{options.precision} {profile} {options.quantization} {rounding}"
    precision = f"{precision} {options.keep} {options.allow} {options.activations}"
    precision = f"{precision} {options.cache_type}"
    choice = f"{options.policy} {precision} {options.tune}"
    target = f"{options.backend} {options.target} {_identity(options)}"
    placed = [f"{device} {_identity(options.on(device))}" for device in options.devices]
    part = repr(options.partition) + _partition_dims(options)
    kept = [f"state {pair}" for pair in sorted(options.state.items())]
    build = [state for backend in _backends(options) for state in build_of(backend)]
    build.append(own_ops_digest())
    where = [target, *placed, str(options.placing)]
    return digest_of_texts(
        [digest, *build, *where, flags, choice, part, *kept, *bound, *dims, *sorted(values)]
    )


def build_of(backend: str) -> list[str]:
    """What tells this code of Afterglow and of a backend from what it was before."""
    return [_build(), *_plugin_states(backend)]


def _extents(*extents: int) -> str:
    """A text that is equal for equal extents: expressions come with the bounds of dimensions."""
    return f"{extents} {_bounds(dims_of(*extents))}".rstrip()


def _bounds(dims: Sequence[Dim]) -> str:
    return str([dim.with_bounds for dim in dims]) if dims else ""


def _partition_dims(options: Options) -> str:
    """The bounds of the dimensions that boundary values depend on; empty if there are none."""
    given = () if options.partition is None else options.partition.given.values()
    types = (type for each in given for type in (each if isinstance(each, tuple) else (each,)))
    dims = dims_of(*(extent for type in types if type is not None for extent in type.shape))
    return _bounds(dims)


def _identity(options: Options) -> str:
    """The device that runs what is compiled, with its driver."""
    name = device_of(options.backend)
    with device_failures(name):
        return find_device(name).identity()


def _content(value: Any) -> str:
    """A text that is equal for equal values: of arrays, lists of them, and nothing."""
    if isinstance(value, (list, tuple)):
        return repr([_content(element) for element in value])
    if not isinstance(value, np.ndarray):
        return repr(value)
    elements = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
    return f"{value.dtype} {value.shape} {digest_of_bytes(elements)}"


def _key_of_files(digest: str) -> str:
    """The key of the names of the files beside a model."""
    return digest_of_texts(["files", digest])


def _content_digest(file: BufferedReader) -> str:
    if os.fstat(file.fileno()).st_size > LARGEST_SOURCE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _build() -> str:
    """This build of Afterglow and of LLVM, by the sizes and times of their files."""
    llvm = find_spec("llvmlite")
    states = _states(Path(__file__).parent.parent)
    return digest_of_texts([*states, "" if llvm is None else _state(llvm.origin or "")])


def _plugin_states(backend: str) -> Iterator[str]:
    """What tells the files of the package that brings a backend from what they were before."""
    package = "" if is_own_backend(backend) else plugin_module(BACKENDS, backend).split(".")[0]
    found = find_spec(package) if package else None
    if found is not None and found.submodule_search_locations:
        for folder in found.submodule_search_locations:
            yield from _states(folder)
    elif found is not None and found.origin:
        yield _state(found.origin)


def _states(folder: str | Path) -> Iterator[str]:
    """What tells the source files in a folder from what they were before."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                yield entry.name
                yield from _states(entry.path)
            elif entry.name.endswith(".py"):
                yield f"{entry.name} {_state(entry.path)}"


def _state(path: str) -> str:
    status = os.stat(path)
    return f"{status.st_size} {status.st_mtime_ns}"
