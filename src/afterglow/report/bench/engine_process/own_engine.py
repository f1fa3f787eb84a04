"""Afterglow: compiled and saved ahead of time, then loaded from the file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from .engine import BenchJob, Engine, Feed, Runner

SAVED = "model.agc"


class AfterglowEngine(Engine):
    """The installed package; always compiled anew, as its version does not identify the code."""

    build_lasts: ClassVar[bool] = False

    def __init__(self) -> None:
        self.afterglow: Any = import_module("afterglow")
        self.version: str = import_module("importlib.metadata").version("afterglow")

    def build(self, job: BenchJob) -> bool:
        """Compile without the cache and save; a model that cannot be saved is compiled on load."""
        self._declare(job)
        if self._is_saved(job.model):
            return False
        saved = job.folder / SAVED
        saved.unlink(missing_ok=True)
        try:
            model = self._compile(job)
            if not model.versions():
                model.version_for(job.zeros())
            model.save(saved)
        except import_module("afterglow.support.errors").UnsupportedError:
            return False
        return True

    def load(self, job: BenchJob) -> AfterglowRunner:
        """Load the saved model, or compile it."""
        self._declare(job)
        saved = Path(job.model) if self._is_saved(job.model) else job.folder / SAVED
        if not saved.exists():
            return AfterglowRunner(self._compile(job))
        where = {"threads": job.threads, "streams": job.streams}
        return AfterglowRunner(self.afterglow.load(saved, **where, cache=False))

    def _declare(self, job: BenchJob) -> None:
        if job.ops:
            import_module("afterglow.support.own_ops").declare_ops(job.ops)

    def _is_saved(self, model: str) -> bool:
        return bool(import_module("afterglow.runtime.load").is_saved_model(model))

    def _compile(self, job: BenchJob) -> Any:
        shapes = {} if job.ranges else job.shapes
        given = {"threads": job.threads, "streams": job.streams, "shapes": shapes}
        if not job.options:
            return self.afterglow.compile(job.model, cache=False, dims=job.ranges, **given)
        dims = import_module("afterglow.driver.dims").DimOptions.of(job.ranges)
        options = import_module("afterglow.driver.described").restore_options(job.options, **given)
        return import_module("afterglow.driver.compile").compile_with(job.model, options, dims)


class AfterglowRunner(Runner):
    """A model compiled by Afterglow."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.state: dict[str, Any] | None = None

    def prepare(self, feed: Feed) -> Feed:
        """The inputs of a call; others are what its state begins with."""
        given = {info.name: feed[info.name] for info in self.model.inputs}
        self.state = {name: array for name, array in feed.items() if name not in given}
        self.rewind()
        return given

    def rewind(self) -> None:
        """Have the state be as before the first call."""
        self.model.reset(self.state)

    def __call__(self, feed: Feed) -> Any:
        """Run once."""
        return self.model.run(None, feed)

    def facts(self) -> dict[str, Any]:
        """The bytes of the arena, of weights, and of code."""
        memory = self.model.memory
        return {
            "arena_bytes": memory.arena_bytes,
            "weight_bytes": memory.weight_bytes,
            "code_bytes": memory.code_bytes,
        }
