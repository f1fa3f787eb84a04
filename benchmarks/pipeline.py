"""How many more requests a second a pipeline over two one-core devices runs than one of them.

    python -m benchmarks.pipeline [MODEL.onnx] [--requests 40] [--trials 9]

Without a model, it is a chain of equal matrix products. Trials of both ways take turns and the
best of each counts, because other processes may disturb one; the time of the processor tells how
much more work the pipeline is, also on a machine that is busy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import afterglow as ag

DEVICES = [ag.LogicalDevice("cpu:0", threads=1), ag.LogicalDevice("cpu:1", threads=1)]
LAYERS, ROWS, WIDTH = 8, 64, 512


@dataclass(frozen=True)
class Measured:
    """Seconds of a request: by the clock, and of the processor."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock * 1e3:8.2f} ms, {self.processor * 1e3:8.2f} ms of the processor"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--trials", type=int, default=9)
    asked = parser.parse_args(arguments)
    source = asked.model or chain()
    config = ag.PartitionConfig(objective="throughput")
    one = ag.compile(source, threads=1)
    two = ag.compile(source, backend=DEVICES, partition=config)
    alone, pipeline = compared(one, two, asked.requests, asked.trials)
    print(f"one device   {alone}")
    print(f"pipeline     {pipeline}")
    print(
        f"{alone.clock / pipeline.clock:.2f} times as many requests a second, "
        f"{pipeline.processor / alone.processor - 1:+.1%} work for each"
    )


def chain() -> ModelProto:
    """Matrix products one after the other, all of the same size."""
    draw = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for layer in range(LAYERS):
        weight = draw.standard_normal((WIDTH, WIDTH)).astype(np.float32) / np.float32(WIDTH**0.5)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"]))
        last = f"r{layer}"
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (ROWS, WIDTH))
        for name in ("x", last)
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def compared(
    one: ag.CompiledModel, two: ag.CompiledModel, requests: int, trials: int
) -> tuple[Measured, Measured]:
    """The best of requests one after the other, and of a pipeline that is given all of them."""
    draw = np.random.default_rng(0)
    inputs = [draw.random(i.shape).astype(i.dtype.numpy) for i in one.inputs]

    def alone() -> None:
        for _ in range(requests):
            one(*inputs)

    def pipelined() -> None:
        for future in [two.submit(*inputs) for _ in range(requests)]:
            future.result()

    found: dict[Callable[[], Any], list[Measured]] = {alone: [], pipelined: []}
    for _ in range(trials + 1):  # the first warms up
        for way, times in found.items():
            times.append(measured(way, requests))
    return best(found[alone][1:]), best(found[pipelined][1:])


def measured(way: Callable[[], Any], requests: int) -> Measured:
    """The seconds of a request, of one trial."""
    clock, processor = perf_counter(), process_time()
    way()
    return Measured((perf_counter() - clock) / requests, (process_time() - processor) / requests)


def best(trials: Sequence[Measured]) -> Measured:
    """The least of each kind of time."""
    return Measured(min(t.clock for t in trials), min(t.processor for t in trials))


if __name__ == "__main__":
    main()
