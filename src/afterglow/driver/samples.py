"""Samples of a model's inputs: from Python, from NumPy's files, or from images in a folder.

An array that is not one of several samples, such as that of a file, has samples along its first
axis: it is cut into pieces that the model takes. If it has an axis more than the input, its
elements are the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from afterglow.driver.array_files import load_arrays
from afterglow.driver.images import IMAGE_SUFFIXES, ImageOptions, ImageReader, ImageSamples
from afterglow.runtime import TensorInfo
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

ARRAY_SUFFIXES = (".npy", ".npz")
"""Files of arrays."""


@dataclass(frozen=True)
class Sample:
    """One sample: an array for each input, and what it is called in errors."""

    feed: Mapping[str, Any]
    label: str


GivenSamples: TypeAlias = tuple[Any, ImageOptions, int | None]
"""What a user gives as samples, how images become arrays, and how many to take at most."""


def no_samples() -> UsageError:
    """The error about samples of which there are none."""
    return UsageError(
        "there are no samples", help="give some that are like the inputs of later runs"
    )


@dataclass(frozen=True)
class Samples:
    """Samples for the inputs of a model, at most `limit` of them if that is given."""

    given: Any
    inputs: Sequence[TensorInfo]
    images: ImageOptions = field(default_factory=ImageOptions)
    limit: int | None = None
    label: str = "array"
    """What given arrays are called in errors."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"the limit must be above 0, got {self.limit}")
        if isinstance(self.given, (str, PathLike)) and not fspath(self.given):
            raise UsageError("the path of the samples is empty")

    @staticmethod
    def of(
        given: Any, inputs: Sequence[TensorInfo], images: ImageOptions, limit: int | None
    ) -> Samples:
        """Samples of what a user gives; a file of arrays is read at once."""
        if isinstance(given, ImageSamples):
            given, images = given.path, given.options
        if isinstance(given, (str, PathLike)) and _is_array_file(Path(given)):
            file = Path(given)
            return Samples(load_arrays(file), inputs, images, limit, file.name)
        return Samples(given, inputs, images, limit)

    @property
    def count(self) -> int | None:
        """How many there are at most; None if that is not known before they are read."""
        bounds = [bound for bound in (self._known_count(), self.limit) if bound is not None]
        return min(bounds, default=None)

    def _known_count(self) -> int | None:
        given = self.given
        if isinstance(given, (str, PathLike)):
            files = sample_files(Path(given)) if Path(given).is_dir() else []
            return len(files) if all(map(_is_image, files)) else None
        if isinstance(given, (np.ndarray, Mapping)):
            counts = (len(found) for found in self._cut(given, self.label).values())
            return max((count for count in counts if count != 1), default=1)
        return len(given) if isinstance(given, (list, tuple)) else None

    def __iter__(self) -> Iterator[Sample]:
        return islice(self._all(), self.limit)

    def _all(self) -> Iterator[Sample]:
        given = self.given
        if isinstance(given, (str, PathLike)):
            yield from self._of_path(Path(given))
        elif isinstance(given, (np.ndarray, Mapping)):
            yield from self._of_arrays(given, self.label)
        elif isinstance(given, Iterable):
            for number, one in enumerate(given):
                yield Sample(self._feed(one, f"sample {number}"), f"sample {number}")
        else:
            raise UsageError(
                f"samples must be something to iterate over, or a path, got {given!r}",
                help="give a list of dictionaries {input: array}, FILE.npz, or a folder",
            )

    def _of_path(self, path: Path) -> Iterator[Sample]:
        if not path.exists():
            raise UsageError(f"there are no samples at {path}: no such file or folder")
        if not path.is_dir():
            yield from self._of_file(path)
            return
        files = sample_files(path)
        if not files:
            kinds = ", ".join((*ARRAY_SUFFIXES, *IMAGE_SUFFIXES))
            raise UsageError(f"there are no samples in {path}", help=f"files may be {kinds}")
        for file in files:
            yield from self._of_file(file)

    def _of_file(self, file: Path) -> Iterator[Sample]:
        if _is_image(file):
            reader = ImageReader.of(self.inputs, self.images, file)
            yield Sample({reader.input.name: reader.read(file)}, file.name)
        elif _is_array_file(file):
            yield from self._of_arrays(load_arrays(file), file.name)
        else:
            raise UsageError(
                f"cannot read samples from {file}",
                help="give FILE.npy, FILE.npz, an image, or a folder of such files",
            )

    def _of_arrays(self, arrays: Array | Mapping[str, Any], label: str) -> Iterator[Sample]:
        """The samples along the first axis of arrays."""
        pieces = self._cut(arrays, label)
        counts = {name: len(found) for name, found in pieces.items()}
        several = {name: count for name, count in counts.items() if count != 1}
        if len({*several.values()}) > 1:
            raise UsageError(
                "arrays must have the same number of samples",
                where=f"in {label}",
                excerpt=[f"{name}: {count}" for name, count in several.items()],
                help="the first axis of an array counts the samples",
            )
        for number in range(max(several.values(), default=1)):
            one = {name: found[number if name in several else 0] for name, found in pieces.items()}
            yield Sample(one, f"{label}[{number}]" if several else label)

    def _cut(self, arrays: Array | Mapping[str, Any], label: str) -> dict[str, Sequence[Any]]:
        """What arrays hold for each sample, by the names of inputs."""
        whole = self._feed(arrays, label)
        return {name: _pieces(self._input(name, label), x) for name, x in whole.items()}

    def _feed(self, given: Any, label: str) -> dict[str, Any]:
        """What is given for one sample, or for all, by the names of inputs."""
        if isinstance(given, Mapping):
            return dict(given)
        is_listed = isinstance(given, (tuple, list)) and len(self.inputs) > 1
        arrays = given if is_listed or isinstance(given, tuple) else (given,)
        if len(arrays) != len(self.inputs):
            names = ", ".join(info.name for info in self.inputs)
            raise UsageError(
                f"a sample has {len(arrays)} arrays, but the model takes {len(self.inputs)}",
                where=f"in {label}",
                help=f"give a dictionary, or arrays in the order of the inputs: {names}",
            )
        return {info.name: x for info, x in zip(self.inputs, arrays, strict=True)}

    def _input(self, name: str, label: str) -> TensorInfo:
        for info in self.inputs:
            if info.name == name:
                return info
        names = ", ".join(info.name for info in self.inputs)
        raise UsageError(
            f"the model has no input {name!r}", where=f"in {label}", help=f"it has {names}"
        )


def _pieces(info: TensorInfo, given: Any) -> Sequence[Any]:
    """What an array holds for each sample: see the module."""
    array = np.asarray(given)
    if info.shape is None or array.ndim == 0:
        return [array]
    if array.ndim == len(info.shape) + 1:
        return [*array]
    first = info.shape[0] if info.shape else None
    size = first if isinstance(first, int) else 1
    if array.ndim != len(info.shape) or size < 1 or len(array) % size:
        return [array]  # which the model will refuse, and say why
    return [array[start : start + size] for start in range(0, len(array), size)]


def sample_files(folder: Path) -> list[Path]:
    """The files of samples in a folder, by name."""
    kinds = (*ARRAY_SUFFIXES, *IMAGE_SUFFIXES)
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in kinds)


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in IMAGE_SUFFIXES


def _is_array_file(file: Path) -> bool:
    return file.suffix.lower() in ARRAY_SUFFIXES and not file.is_dir()
