"""ONNX Runtime on the CPU, with all graph optimisations, which it runs at load time."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from .engine import BenchJob, Engine, Feed, Runner

ERRORS_ONLY = 3


class OnnxRuntimeEngine(Engine):
    """The package `onnxruntime`."""

    packages: ClassVar[tuple[str, ...]] = ("onnxruntime",)

    def __init__(self) -> None:
        self.runtime: Any = import_module("onnxruntime")
        self.version: str = self.runtime.__version__

    def load(self, job: BenchJob) -> OnnxRuntimeRunner:
        """A session with the given number of threads."""
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = ERRORS_ONLY
        session = self.runtime.InferenceSession(
            job.model, options, providers=["CPUExecutionProvider"]
        )
        return OnnxRuntimeRunner(session)


class OnnxRuntimeRunner(Runner):
    """A session with inputs and outputs bound to memory once."""

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
        """The outputs, copied to NumPy arrays."""
        return list(binding.copy_outputs_to_cpu())
