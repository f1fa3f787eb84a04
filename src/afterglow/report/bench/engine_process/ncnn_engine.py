"""ncnn on the CPU in single precision: converted from ONNX by pnnx, then loaded."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .bound import bound_path
from .engine import BenchJob, CannotConvertError, Engine, Feed, Runner
from .tools import run, telling

LINK, PARAMETERS, WEIGHTS, SCRIPT = "m.onnx", "m.ncnn.param", "m.ncnn.bin", "m_ncnn.py"
INPUT = re.compile(r'ex\.input\("(\w+)", ncnn\.Mat\(\w+\.numpy\(\), batch_index=(\d+)\)')
OUTPUT = re.compile(
    r'ex\.extract\("(\w+)"\)\s+out\.append\(torch\.from_numpy\(\w+\.numpy\(batch_index=(\d+)\)'
)
FOREIGN = re.compile(r"((?:pnnx|aten|onnx|prim)[.:]\S*|\w+Linear) ")
"""Matches lines of the parameter file whose layer ncnn does not have."""

Port = tuple[str, int]
"""The name that pnnx gave an input or output, and the index of its batch axis."""


class NcnnEngine(Engine):
    """The packages `ncnn` and `pnnx`."""

    packages: ClassVar[tuple[str, ...]] = ("ncnn", "onnx")
    alone: ClassVar[tuple[str, ...]] = ("pnnx",)

    def __init__(self) -> None:
        self.ncnn: Any = import_module("ncnn")
        self.version: str = self.ncnn.__version__

    def build(self, job: BenchJob) -> bool:
        """Convert the model; pnnx writes its output next to its input."""
        link = job.folder / LINK
        link.unlink(missing_ok=True)
        link.symlink_to(bound_path(job))
        log = run(_converter(), LINK, "fp16=0", folder=job.folder)
        parameters = job.folder / PARAMETERS
        if not parameters.exists():
            raise CannotConvertError(f"pnnx wrote nothing: {telling(log)}")
        foreign = foreign_layers(parameters.read_text())
        if foreign:
            raise CannotConvertError(f"ncnn has no layer for {', '.join(foreign)}")
        return True

    def load(self, job: BenchJob) -> NcnnRunner:
        """Load the converted files."""
        net = self.ncnn.Net()
        net.opt.num_threads = job.threads
        net.opt.use_vulkan_compute = False
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_storage = False
        folder: Path = job.folder
        if net.load_param(str(folder / PARAMETERS)) or net.load_model(str(folder / WEIGHTS)):
            raise CannotConvertError("ncnn cannot load the output of pnnx")
        inputs, outputs = ports((folder / SCRIPT).read_text())
        return NcnnRunner(self.ncnn, net, inputs, outputs)


class NcnnRunner(Runner):
    """A net, with the names of its inputs and outputs."""

    def __init__(self, ncnn: Any, net: Any, inputs: list[Port], outputs: list[Port]) -> None:
        self.ncnn, self.net, self.inputs, self.outputs = ncnn, net, inputs, outputs

    def prepare(self, feed: Feed) -> list[tuple[str, Any]]:
        """The inputs as ncnn matrices; int64 becomes int32, as ncnn lacks it."""
        prepared = []
        for (name, batch), array in zip(self.inputs, feed.values(), strict=True):
            array = array.astype(np.int32) if array.dtype == np.int64 else array
            prepared.append((name, self.ncnn.Mat(array, batch_index=batch).clone()))
        return prepared

    def __call__(self, prepared: list[tuple[str, Any]]) -> list[Any]:
        """Run once."""
        extractor = self.net.create_extractor()
        for name, matrix in prepared:
            extractor.input(name, matrix)
        return [extractor.extract(name)[1] for name, _ in self.outputs]

    def fetch(self, ran: list[Any]) -> list[Any]:
        """The outputs, copied to NumPy arrays."""
        pairs = zip(ran, self.outputs, strict=True)
        return [np.array(matrix.numpy(batch_index=batch)) for matrix, (_, batch) in pairs]


def _converter() -> str:
    """The program in the package `pnnx`, whose Python part would import PyTorch."""
    spec = find_spec("pnnx")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("no package pnnx", name="pnnx")
    return str(Path(spec.origin).with_name("pnnx"))


def ports(script: str) -> tuple[list[Port], list[Port]]:
    """Inputs and outputs, read from the example script that pnnx writes."""
    found = tuple(
        [(name, int(batch)) for name, batch in form.findall(script)] for form in (INPUT, OUTPUT)
    )
    if not all(found):
        raise CannotConvertError("the output of pnnx does not name its inputs and outputs")
    return found[0], found[1]


def foreign_layers(parameters: str) -> list[str]:
    """The ops that pnnx did not convert to ncnn layers."""
    matches = map(FOREIGN.match, parameters.splitlines())
    return sorted({match[1] for match in matches if match})
