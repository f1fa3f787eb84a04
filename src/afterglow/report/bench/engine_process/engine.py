"""What an engine is to the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

Feed = Mapping[str, Any]
"""An array for each input, by name."""


class CannotConvertError(Exception):
    """An engine has no way to run the model; the text says what it lacks."""


@dataclass(frozen=True)
class Job:
    """A model to run: its file, how many threads run it, and a folder for what is made of it."""

    model: str
    threads: int
    folder: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The element type of each input, as NumPy calls it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """How Afterglow compiles it, as its driver describes options; nothing for as it always does."""

    def zeros(self) -> dict[str, Any]:
        """An example of the inputs, for engines that compile by running."""
        return {name: np.zeros(shape, self.kinds[name]) for name, shape in self.shapes.items()}


class Runner:
    """A model that an engine has loaded.

    Moving arrays in and out is apart from the call, which alone is timed.
    """

    def prepare(self, feed: Feed) -> Any:
        """The inputs as the call wants them."""
        return feed

    def __call__(self, prepared: Any) -> Any:
        """Run once, to the end."""
        raise NotImplementedError

    def fetch(self, ran: Any) -> list[Any]:
        """The outputs as arrays, in the model's order."""
        return list(ran)

    def facts(self) -> dict[str, Any]:
        """What else there is to say, such as the bytes of an arena."""
        return {}


class Engine:
    """An engine. Making one imports its packages."""

    packages: ClassVar[tuple[str, ...]] = ()
    """What `pip install` wants."""
    alone: ClassVar[tuple[str, ...]] = ()
    """What `pip install --no-deps` wants: packages that ask for large ones without need."""
    build_lasts: ClassVar[bool] = True
    """Whether what is built serves again, as long as version and model are the same."""
    build_knows_threads: ClassVar[bool] = False
    """Whether what is built is for a number of threads."""
    version: str

    def build(self, job: Job) -> bool:
        """Make what is made ahead of time, in the folder of the job; says if there is such."""
        return False

    def load(self, job: Job) -> Runner:
        """Make the model ready to run."""
        raise NotImplementedError
