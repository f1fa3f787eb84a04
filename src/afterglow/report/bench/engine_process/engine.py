"""What an engine is to the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Feed = Mapping[str, Any]
"""An array for each input, by name."""


@dataclass(frozen=True)
class Job:
    """A model to run: its file, how many threads run it, and a folder for what is made of it."""

    model: str
    threads: int
    folder: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class Runner(Protocol):
    """A model that an engine has loaded.

    Moving arrays in and out is apart from the call, which alone is timed.
    """

    def prepare(self, feed: Feed, /) -> Any:
        """The inputs as the call wants them."""

    def __call__(self, prepared: Any, /) -> Any:
        """Run once, to the end."""

    def fetch(self, ran: Any, /) -> list[Any]:
        """The outputs as arrays, in the model's order."""

    def facts(self) -> dict[str, Any]:
        """What else there is to say, such as the bytes of an arena."""


class Engine(Protocol):
    """An engine, once it is imported."""

    version: str

    def build(self, job: Job) -> bool:
        """Make what is made ahead of time, in the folder of the job; says if there is such."""

    def load(self, job: Job) -> Runner:
        """Make the model ready to run."""
