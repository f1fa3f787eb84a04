"""Checkpoints: all that a training run needs to go on as if it had never stopped, in one file.

A checkpoint is a container (`support.container`): a section for each array, and as metadata where
the run is, its history, and what it was trained with. It is written beside its place and then
renamed, so that a save that is interrupted leaves the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.support.atomic_file import PART_SUFFIX
from afterglow.support.container import Container, is_container, read_container, write_container
from afterglow.support.errors import UsageError, warn
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import checked_path, writing
from afterglow.support.regular_file import open_regular
from afterglow.types import Array, DType
from afterglow.types.dtype import dtype_named

KIND = "training checkpoint"
VERSION = 1
SUFFIX = ".agt"
_GROUPS = ("weights", "slots", "best")
_NAME = re.compile(r"step-(\d+)\.agt")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training run after a step."""

    step: int
    """How many steps were done."""
    weights: Mapping[str, Array]
    """Weights and running statistics, by their names in the model."""
    slots: Mapping[str, Array] = field(default_factory=dict)
    """The state of the optimizer."""
    best: Mapping[str, Array] = field(default_factory=dict)
    """The weights of the best epoch, if they are to be restored."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the model is trained with: optimizer, loss, …, as texts and numbers."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Where the run is: the epoch, the batch in it, sums over its batches, the history, …"""

    def save(self, path: str | Path, *, durable: bool = True) -> None:
        """Write it over what was there, which stays as it is until all is written."""
        target = checked_path(path, "checkpoint")
        arrays = {
            f"{group}/{name}": np.asarray(array, order="C")
            for group in _GROUPS
            for name, array in getattr(self, group).items()
        }
        metadata = {
            "kind": KIND,
            "version": VERSION,
            "step": self.step,
            "settings": dict(self.settings),
            "progress": dict(self.progress),
            "arrays": {n: [DType.of(a.dtype).name, list(a.shape)] for n, a in arrays.items()},
        }
        sections = {name: _bytes(array) for name, array in arrays.items()}
        with writing(target):
            write_container(target, metadata, sections, durable=durable)

    @staticmethod
    def load(path: str | Path) -> Checkpoint:
        """Read a checkpoint; a file that is damaged or something else is an error."""
        source = checked_path(path, "checkpoint")
        container = _opened(source)
        metadata = container.metadata
        groups: dict[str, Any] = {group: {} for group in _GROUPS}
        for name, about in metadata["arrays"].items():
            group, _, own = name.partition("/")
            groups[group][own] = _array(container, name, *about)
        kept = {name: metadata[name] for name in ("step", "settings", "progress")}
        return Checkpoint(**groups, **kept)

    def check_arrays(self, weights: Mapping[str, Array], slots: Mapping[str, Array]) -> None:
        """Raise if it is not of a model and an optimizer that have such arrays."""
        _check_same(self.weights, weights, "the model", "weight")
        _check_same(self.slots, slots, "the optimizer", "state")


def _bytes(array: Array) -> bytes | memoryview:
    """The elements as they lie in memory; a view of none cannot be cast."""
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def _array(container: Container, name: str, dtype: str, shape: list[int]) -> Array:
    # a copy: the file may be replaced while the array is in use
    return np.frombuffer(container.section(name), dtype_named(dtype).numpy).reshape(shape).copy()


def _opened(path: Path) -> Container:
    """The file, if it is a checkpoint that this version reads."""
    foreign = UsageError(
        f"{path}: not a checkpoint of a training run",
        help="give a file that Trainer.save or Trainer.fit(checkpoint=…) has written",
    )
    try:
        with open_regular(path) as file:
            if not is_container(file.read(16)):
                raise foreign
        container = read_container(path)
    except OSError as problem:
        raise UsageError(f"{path}: cannot be opened: {problem.strerror}") from None
    except UsageError as error:
        if error is not foreign:
            error.help = "load an earlier checkpoint"
        raise
    if container.metadata.get("kind") != KIND:
        raise foreign
    if container.metadata["version"] != VERSION:
        raise UsageError(
            f"{path}: a checkpoint in format {container.metadata['version']}; "
            f"this version of Afterglow reads format {VERSION}"
        )
    return container


def _check_same(
    saved: Mapping[str, Array], own: Mapping[str, Array], owner: str, what: str
) -> None:
    """Raise if arrays differ in names, shapes or elements."""
    faults = [*_differences(saved, own, what)]
    if faults:
        more = [f"and {len(faults) - 6} more"] if len(faults) > 6 else []
        raise UsageError(
            f"the checkpoint does not fit {owner}",
            excerpt=[*faults[:6], *more],
            help="train what it was saved from, or begin a new run in another folder",
        )


def _differences(saved: Mapping[str, Array], own: Mapping[str, Array], what: str) -> Iterator[str]:
    for name in dict.fromkeys((*saved, *own)):
        if name not in own:
            yield f"{what} {name!r}: only in the checkpoint"
        elif name not in saved:
            yield f"{what} {name!r}: not in the checkpoint"
        elif _type(saved[name]) != _type(own[name]):
            yield f"{what} {name!r}: {_type(saved[name])} saved, {_type(own[name])} wanted"


def _type(array: Array) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def changed(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs of settings, each as a text: name, what it was and what it is."""
    names = dict.fromkeys((*saved, *now))
    return [
        f"{name}: {saved.get(name)} saved, {now.get(name)} now"
        for name in names
        if saved.get(name) != now.get(name)
    ]


@dataclass(frozen=True)
class Checkpoints:
    """Where and when a run saves checkpoints.

    Args:
        folder: the folder they are in, which is made if there is none. One run has one folder.
        every: save each time so many steps are done, besides at the end of each epoch; 0 for not.
        keep: how many of the last ones are kept. The best is kept, too, as `best.agt`.
        durable: wait until the disk has them, so that they outlast a loss of power.
    """

    folder: str | Path
    every: int = 0
    keep: int = 2
    durable: bool = True

    def __post_init__(self) -> None:
        checked_path(self.folder, "folder of checkpoints")
        counts = self.keep, self.every
        if not all(isinstance(n, int) for n in counts) or self.keep < 1 or self.every < 0:
            raise UsageError(
                f"cannot keep {self.keep} checkpoints, one every {self.every} steps",
                help="keep at least 1; every is at least 0",
            )

    @staticmethod
    def of(given: Checkpoints | str | Path) -> Checkpoints:
        """The folder alone, or all of it."""
        return given if isinstance(given, Checkpoints) else Checkpoints(given)

    @property
    def best(self) -> Path:
        """The file of the best epoch."""
        return Path(self.folder) / f"best{SUFFIX}"

    def files(self) -> list[Path]:
        """The files there are, the newest first, without the best."""
        found = [(m, path) for path in self._listed() if (m := _NAME.fullmatch(path.name))]
        return [path for m, path in sorted(found, key=lambda each: -int(each[0][1]))]

    def _listed(self) -> list[Path]:
        folder = Path(self.folder)
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def save(self, checkpoint: Checkpoint, *, is_best: bool = False) -> None:
        """Add one, and remove those that are older than what is kept."""
        folder = Path(self.folder)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        if is_best:
            checkpoint.save(self.best, durable=self.durable)
        checkpoint.save(folder / f"step-{checkpoint.step:09}{SUFFIX}", durable=self.durable)
        interrupted = [path for path in self._listed() if path.name.endswith(PART_SUFFIX)]
        for path in (*self.files()[self.keep :], *interrupted):
            path.unlink(missing_ok=True)

    def newest(self) -> Checkpoint | None:
        """The newest one that is whole; None if there are none. Damaged ones are warned about."""
        files = self.files()
        for number, path in enumerate(files):
            try:
                return Checkpoint.load(path)
            except UsageError as error:
                if number == len(files) - 1:
                    raise
                warn(f"{error.what}; an earlier checkpoint is used")
        return None
