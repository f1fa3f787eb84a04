"""Times what a run costs the host, without what the GPU does meanwhile.

    python -m benchmarks.cuda.host [--library libcuda.so.1]

A program with one input and output, and one with as many as a step of GPT-2 with its caches (26 and
25), on arrays by `__cuda_array_interface__`. The library may be one that pretends to
be the driver, such as that of the tests: then no GPU is needed, and the driver's own time is left
out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from onnx import TensorProto, helper

import afterglow as ag
from afterglow.backends.cuda.driver.cuda import CudaDriver
from afterglow.backends.cuda.driver.library import LIBRARY, Library
from afterglow.backends.cuda.executable import CudaExecutable
from afterglow.runtime.artifact import Artifact

STREAM = 1
ROUNDS, CALLS = 15, 200
SHAPE, FLOAT = (2,), TensorProto.FLOAT


class OnGpu:
    """An array by its address."""

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": "<f4",
            "data": (address, False),
            "strides": None,
            "stream": STREAM,
        }


def program(inputs: int, outputs: int, arch: int) -> Artifact:
    """A program of short kernels with so many inputs and outputs."""
    values = [helper.make_tensor_value_info(f"x{i}", FLOAT, SHAPE) for i in range(inputs)]
    results = [helper.make_tensor_value_info(f"y{i}", FLOAT, SHAPE) for i in range(outputs)]
    nodes = [
        helper.make_node("Add", [f"x{i % inputs}", f"x{(i + 1) % inputs}"], [f"y{i}"])
        for i in range(outputs)
    ]
    graph = helper.make_graph(nodes, "sums", values, results)
    onnx = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = ag.compile(onnx.SerializeToString(), backend="cuda", target=f"sm_{arch}")
    artifact = model.compiled.artifact
    assert artifact is not None
    return artifact


def microseconds(call: Callable[[], Any]) -> float:
    """The median of a call over some rounds."""
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter() - start) / CALLS * 1e6)
    return median(found)


def rows(library: str) -> list[tuple[str, float, float, float]]:
    """Of each program: a run on arrays, one on results of a run, and one that is bound."""
    driver = CudaDriver(Library(library))
    facts = driver.devices()[0]
    found = []
    for name, inputs, outputs in (("1 input, 1 output", 1, 1), ("26 inputs, 25 outputs", 26, 25)):
        executable = CudaExecutable(program(inputs, outputs, facts.arch), driver, facts)
        context = executable._program.session.context
        arrays = [OnGpu(context.alloc(256), SHAPE) for _ in range(inputs)]
        ours = [*executable.run_on_device(arrays), *executable.run_on_device(arrays)][:inputs]
        bound = executable.bind_on_device(arrays)
        found.append(
            (
                name,
                microseconds(lambda e=executable, a=arrays: e.run_on_device(a)),  # type: ignore[misc]
                microseconds(lambda e=executable, a=ours: e.run_on_device(a)),  # type: ignore[misc]
                microseconds(bound),
            )
        )
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.host")
    parser.add_argument("--library", default=LIBRARY)
    print("| program | arrays of others, us | results of a run, us | bound, us |")
    print("|---|---:|---:|---:|")
    for name, *times in rows(parser.parse_args().library):
        print(f"| {name} | " + " | ".join(f"{t:.1f}" for t in times) + " |")


if __name__ == "__main__":
    main()
