"""Run a model by OpenVINO, as it is or quantized by NNCF: see `speed_worker`.

A float model whose name ends in `.nncf.onnx` is quantized first, with its inputs as the only
sample, since samples do not change how long the integers take. The quantized model is kept beside.
"""

# ruff: noqa: I001  telemetry is stubbed before what would use it
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import benchmarks.no_telemetry  # noqa: F401
import nncf
import openvino

from benchmarks.speed_worker import Feed, main


def load(model: Path, feed: Feed, threads: int) -> Callable[[], object]:
    """Runs of a model."""
    core = openvino.Core()
    made = model.with_suffix(".xml")
    if model.name.endswith(".nncf.onnx") and not made.exists():
        openvino.save_model(_quantized(core.read_model(model), feed), made, compress_to_fp16=False)
    network = core.read_model(made if made.exists() else model)
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(network, "CPU", settings)
    return lambda: compiled(feed)


def _quantized(network: openvino.Model, feed: Feed) -> openvino.Model:
    network.reshape({name: array.shape for name, array in feed.items()})
    kinds = {op.get_type_name() for op in network.get_ops()}
    transformer = nncf.ModelType.TRANSFORMER if {"MVN", "Softmax"} <= kinds else None
    return nncf.quantize(network, nncf.Dataset([feed]), subset_size=1, model_type=transformer)


if __name__ == "__main__":
    main(load)
