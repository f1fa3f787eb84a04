"""ONNX Runtime on the CPU, with all of its graph optimisations, which it does when it loads."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from .engine import Engine, Feed, Job, Runner

ERRORS_ONLY = 3


class OnnxRuntimeEngine(Engine):
    """The package `onnxruntime`."""

    packages: ClassVar[tuple[str, ...]] = ("onnxruntime",)

    def __init__(self) -> None:
        self.runtime: Any = import_module("onnxruntime")
        self.version: str = self.runtime.__version__

    def load(self, job: Job) -> OnnxRuntimeRunner:
        """A session of so many threads."""
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = ERRORS_ONLY
        session = self.runtime.InferenceSession(
            job.model, options, providers=["CPUExecutionProvider"]
        )
        return OnnxRuntimeRunner(session)


class OnnxRuntimeRunner(Runner):
    """A session, whose inputs and outputs are bound to memory once."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def prepare(self, feed: Feed) -> Any:
        """Bind the inputs."""
        binding = self.session.io_binding()
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        for output in self.session.get_outputs():
            binding.bind_output(output.name, "cpu")
        return binding

    def __call__(self, binding: Any) -> Any:
        """Run once."""
        self.session.run_with_iobinding(binding)
        return binding

    def fetch(self, binding: Any) -> list[Any]:
        """Copies of the outputs."""
        return list(binding.copy_outputs_to_cpu())
