"""MNN on the CPU in single precision: converted ahead of time, run as a module."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from .engine import BenchJob, CannotConvertError, Engine, Feed, Runner
from .tools import run, telling

CONVERTED = "model.mnn"
CONVERT = "import sys, MNN, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"
"""The conversion of the command `mnnconvert`, without its telemetry."""


class MnnEngine(Engine):
    """The package `MNN`."""

    packages: ClassVar[tuple[str, ...]] = ("MNN",)

    def __init__(self) -> None:
        self.mnn: Any = import_module("MNN")
        self.version: str = self.mnn.version()

    def build(self, job: BenchJob) -> bool:
        """Convert the model to MNN's file format."""
        target = str(job.folder / CONVERTED)
        words = ["-f", "ONNX", "--modelFile", job.model, "--MNNModel", target, "--bizCode", "bench"]
        log = run(sys.executable, "-c", CONVERT, *words, folder=job.folder)
        if "Converted Success" not in log:
            raise CannotConvertError(telling(log))
        return True

    def load(self, job: BenchJob) -> MnnRunner:
        """Load the converted file."""
        config = {"backend": "CPU", "numThread": job.threads, "precision": "high"}
        manager = self.mnn.nn.create_runtime_manager((config,))
        module = self.mnn.nn.load_module_from_file(
            str(job.folder / CONVERTED),
            list(job.inputs),
            list(job.outputs),
            runtime_manager=manager,
        )
        return MnnRunner(self.mnn, module, manager, job.inputs)


class MnnRunner(Runner):
    """A module, and the runtime manager, which must live as long as the module."""

    def __init__(self, mnn: Any, module: Any, manager: Any, inputs: tuple[str, ...]) -> None:
        self.mnn, self.module, self.manager, self.inputs = mnn, module, manager, inputs

    def prepare(self, feed: Feed) -> list[Any]:
        """The inputs as MNN variables; int64 becomes int32, as MNN lacks it."""
        expr = self.mnn.expr
        variables = []
        for name in self.inputs:
            array = np.ascontiguousarray(feed[name])
            array = array.astype(np.int32) if array.dtype == np.int64 else array
            kind = expr.int if array.dtype == np.int32 else expr.float
            variables.append(expr.const(array, list(array.shape), expr.NCHW, kind))
        return variables

    def __call__(self, variables: list[Any]) -> list[Any]:
        """Run once; MNN computes the outputs when they are read."""
        outputs = self.module.forward(variables)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        for output in outputs:
            output.read()
        return list(outputs)

    def fetch(self, ran: list[Any]) -> list[Any]:
        """The outputs, copied to NumPy arrays."""
        return [np.array(output.read()) for output in ran]
