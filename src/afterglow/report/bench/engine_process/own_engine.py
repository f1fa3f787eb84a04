"""Afterglow: compiled and saved ahead of time, then loaded from the file."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .engine import Feed, Job

SAVED = "model.agc"


class AfterglowEngine:
    """The package as it is installed."""

    def __init__(self) -> None:
        self.afterglow: Any = import_module("afterglow")
        self.version: str = import_module("importlib.metadata").version("afterglow")

    def build(self, job: Job) -> bool:
        """Compile without the cache, and save; what cannot be saved is compiled at loading."""
        try:
            self._compile(job).save(job.folder / SAVED)
        except import_module("afterglow.support.errors").UnsupportedError:
            return False
        return True

    def load(self, job: Job) -> AfterglowRunner:
        """Load what was saved, or compile."""
        saved = job.folder / SAVED
        if not saved.exists():
            return AfterglowRunner(self._compile(job))
        return AfterglowRunner(self.afterglow.load(saved, threads=job.threads))

    def _compile(self, job: Job) -> Any:
        return self.afterglow.compile(
            job.model, threads=job.threads, shapes=job.shapes, cache=False
        )


class AfterglowRunner:
    """A model of ours."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def prepare(self, feed: Feed) -> Feed:
        """Arrays are taken as they are."""
        return feed

    def __call__(self, feed: Feed) -> Any:
        """Run once."""
        return self.model.run(None, feed)

    def fetch(self, ran: Any) -> list[Any]:
        """They are arrays."""
        return list(ran)

    def facts(self) -> dict[str, Any]:
        """The bytes of the arena, of weights, and of code."""
        memory = self.model.memory
        return {
            "arena_bytes": memory.arena_bytes,
            "weight_bytes": memory.weight_bytes,
            "code_bytes": memory.code_bytes,
        }
