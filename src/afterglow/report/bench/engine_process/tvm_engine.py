"""Apache TVM on the CPU: compiled ahead of time for this machine, without tuning."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from .bound import bound_model
from .engine import BenchJob, CannotConvertError, Engine, Feed, Runner

COMPILED = "model.so"


class TvmEngine(Engine):
    """The package `apache-tvm`."""

    packages: ClassVar[tuple[str, ...]] = ("apache-tvm", "onnx")

    def __init__(self) -> None:
        self.tvm: Any = import_module("tvm")
        self.relax: Any = import_module("tvm.relax")
        self.version: str = self.tvm.__version__

    def build(self, job: BenchJob) -> bool:
        """Import and compile to a shared library."""
        importer: Any = import_module("tvm.relax.frontend.onnx")
        try:
            module = importer.from_onnx(bound_model(job), shape_dict=_shapes(job))
        except Exception as error:
            raise CannotConvertError(str(error)) from error
        cpu = import_module("tvm.target.codegen").llvm_get_system_cpu()
        target = self.tvm.target.Target({"kind": "llvm", "mcpu": cpu})
        with target:
            self.relax.build(module, target).export_library(str(job.folder / COMPILED))
        return True

    def load(self, job: BenchJob) -> TvmRunner:
        """Load the library; an environment variable sets the number of threads."""
        library = self.tvm.runtime.load_module(str(job.folder / COMPILED))
        return TvmRunner(self.tvm, self.relax.VirtualMachine(library, self.tvm.cpu())["main"])


class TvmRunner(Runner):
    """The main function of a module."""

    def __init__(self, tvm: Any, function: Any) -> None:
        self.tvm, self.function = tvm, function

    def prepare(self, feed: Feed) -> list[Any]:
        """The inputs as TVM tensors."""
        return [self.tvm.runtime.tensor(array) for array in feed.values()]

    def __call__(self, tensors: list[Any]) -> Any:
        """Run once."""
        return self.function(*tensors)

    def fetch(self, ran: Any) -> list[Any]:
        """The outputs, copied to NumPy arrays."""
        several = [ran] if hasattr(ran, "numpy") else list(ran)
        return [tensor.numpy() for tensor in several]

    def facts(self) -> dict[str, Any]:
        """A note that TVM, which relies on tuning, was not tuned."""
        return {"note": "untuned"}


def _shapes(job: BenchJob) -> dict[str, list[int]]:
    return {name: list(shape) for name, shape in job.shapes.items()}
