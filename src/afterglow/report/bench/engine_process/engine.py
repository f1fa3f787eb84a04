"""The interface of an engine to the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from afterglow.support.lazy_dataclass import dataclass

Feed = Mapping[str, Any]
"""An array for each input, by name."""


class CannotConvertError(Exception):
    """An engine cannot convert the model; the message says what is missing."""


@dataclass(frozen=True)
class BenchJob:
    """A model to run: its file, the number of threads, and a folder for compiled files."""

    model: str
    threads: int
    folder: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The element type of each input, by NumPy's name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options for compiling with Afterglow, as `describe_options` returns them; {}: defaults."""
    ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Smallest and largest extent, and step, of dimensions that Afterglow's program is for."""
    ops: tuple[str, ...] = ()
    """Python files that declare ops of the user's own, for Afterglow."""
    streams: int = 1
    """Calls that have threads of their own at the same time, for Afterglow."""

    def zeros(self) -> dict[str, Any]:
        """Example inputs, for engines that compile by running the model."""
        return {name: np.zeros(shape, self.kinds[name]) for name, shape in self.shapes.items()}


class Runner:
    """A model loaded by an engine; only `__call__` is timed, not `prepare` and `fetch`."""

    def prepare(self, feed: Feed) -> Any:
        """The inputs in the form that the call takes."""
        return feed

    def rewind(self) -> None:
        """Have the next call begin as the first one did; not timed."""

    def __call__(self, prepared: Any) -> Any:
        """Run once and wait for the result."""
        raise NotImplementedError

    def fetch(self, ran: Any) -> list[Any]:
        """The outputs as arrays, in the model's order."""
        return list(ran)

    def facts(self) -> dict[str, Any]:
        """Additional fields of the measurement, such as the size of the arena."""
        return {}


class Engine:
    """An engine; the constructor imports its packages."""

    packages: ClassVar[tuple[str, ...]] = ()
    """The packages to `pip install`."""
    alone: ClassVar[tuple[str, ...]] = ()
    """Packages to `pip install --no-deps`, as they require large packages unnecessarily."""
    build_lasts: ClassVar[bool] = True
    """Whether compiled files can be reused while engine version and model stay the same."""
    build_knows_threads: ClassVar[bool] = False
    """Whether compiled files depend on the number of threads."""
    version: str

    def build(self, job: BenchJob) -> bool:
        """Compile ahead of time into the job's folder; False if the engine has no such step."""
        return False

    def load(self, job: BenchJob) -> Runner:
        """Load the model, ready to run."""
        raise NotImplementedError
