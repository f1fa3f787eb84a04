"""JAX on the CPU: XLA compiles ahead of time into its cache, and loading reads it."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from .bound import bound_model
from .engine import BenchJob, CannotConvertError, Engine, Feed, Runner

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
"""Flag for one thread; without it XLA uses as many threads as the process has cores."""


class JaxEngine(Engine):
    """The packages `jax` and `jaxonnxruntime`."""

    packages: ClassVar[tuple[str, ...]] = ("jax", "jaxonnxruntime", "absl-py", "onnx")
    build_knows_threads: ClassVar[bool] = True

    def __init__(self) -> None:
        os.environ["JAX_PLATFORMS"] = "cpu"
        if os.environ.get("OMP_NUM_THREADS") == "1":
            os.environ["XLA_FLAGS"] = ONE_THREAD
        self.jax: Any = import_module("jax")
        self.ops: Any = import_module(".jax_ops", __package__)
        self.version: str = self.jax.__version__

    def build(self, job: BenchJob) -> bool:
        """Compile, to fill the cache."""
        self.load(job)
        return True

    def load(self, job: BenchJob) -> JaxRunner:
        """Convert the model, and compile it unless it is in the cache."""
        self.jax.config.update("jax_compilation_cache_dir", str(job.folder / "cache"))
        self.jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        feed = job.zeros()
        try:
            function, weights = self.ops.convert(bound_model(job), feed)
            compiled = self.jax.jit(function).lower(weights, feed).compile()
        except Exception as error:
            raise CannotConvertError(f"{type(error).__name__}: {error}") from error
        return JaxRunner(self.jax, compiled, self.jax.device_put(weights))


class JaxRunner(Runner):
    """A compiled function and its weights."""

    def __init__(self, jax: Any, compiled: Any, weights: Any) -> None:
        self.jax, self.compiled, self.weights = jax, compiled, weights

    def prepare(self, feed: Feed) -> Any:
        """The inputs as device arrays."""
        return self.jax.device_put(dict(feed))

    def __call__(self, arrays: Any) -> Any:
        """Run once and wait for the result."""
        return self.jax.block_until_ready(self.compiled(self.weights, arrays))

    def fetch(self, ran: Any) -> list[Any]:
        """The outputs, copied to NumPy arrays."""
        return [np.asarray(array) for array in ran]
