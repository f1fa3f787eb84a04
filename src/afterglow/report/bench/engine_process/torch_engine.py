"""PyTorch on the CPU: eager mode, and compiled by Inductor."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, ClassVar

from .bound import bound_model
from .engine import BenchJob, CannotConvertError, Engine, Feed, Runner


class TorchEngine(Engine):
    """The packages `torch` and `onnx2torch`, in eager mode."""

    packages: ClassVar[tuple[str, ...]] = ("torch", "onnx")
    alone: ClassVar[tuple[str, ...]] = ("onnx2torch",)

    def __init__(self) -> None:
        self.torch: Any = import_module("torch")
        self.ops: Any = import_module(".torch_ops", __package__)
        self.version: str = self.torch.__version__

    def load(self, job: BenchJob) -> TorchRunner:
        """Convert the model to a module."""
        self.torch.set_num_threads(job.threads)
        return TorchRunner(self.torch, self._module(job))

    def _module(self, job: BenchJob) -> Any:
        try:
            return self.ops.convert(bound_model(job))
        except Exception as error:
            raise CannotConvertError(f"onnx2torch: {error}") from error


class InductorEngine(TorchEngine):
    """`torch.compile` with frozen weights; needs a C++ compiler, and compiles at load time."""

    def load(self, job: BenchJob) -> TorchRunner:
        """Compile the module, by calling it once."""
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(job.folder / "cache")
        inductor: Any = import_module("torch._inductor.config")
        inductor.freezing = inductor.cpp_wrapper = True
        inductor.compile_threads = 1  # workers would have to import PyTorch first
        import_module("torch._dynamo.config").allow_rnn = True  # type: ignore[attr-defined]
        self.torch.set_num_threads(job.threads)
        compiled = self.torch.compile(self._module(job), fullgraph=True, dynamic=False)
        runner = TorchRunner(self.torch, compiled)
        runner(runner.prepare(job.zeros()))
        return runner


class TorchRunner(Runner):
    """A module, eager or compiled."""

    def __init__(self, torch: Any, module: Any) -> None:
        self.torch, self.module = torch, module

    def prepare(self, feed: Feed) -> list[Any]:
        """Copies as tensors; Inductor would recompile for memory of a different alignment."""
        return [self.torch.from_numpy(array).clone() for array in feed.values()]

    def __call__(self, tensors: list[Any]) -> Any:
        """Run once."""
        with self.torch.no_grad():
            return self.module(*tensors)

    def fetch(self, ran: Any) -> list[Any]:
        """The outputs, copied to NumPy arrays."""
        several = ran if isinstance(ran, (tuple, list)) else [ran]
        return [tensor.numpy().copy() for tensor in several]
