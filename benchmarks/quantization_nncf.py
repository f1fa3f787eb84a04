"""Quantize a model by NNCF and run it in OpenVINO: see `quantization_peers`."""

# ruff: noqa: I001  telemetry is stubbed before what would use it
from __future__ import annotations

from pathlib import Path

import benchmarks.no_telemetry  # noqa: F401
import nncf
import numpy as np
import openvino

from benchmarks.quantization_peers import Feed, Run, main


def quantize(model: Path, calibrate: list[Feed]) -> Run:
    """Post-training quantization with all that is on by default."""
    core = openvino.Core()
    network = core.read_model(model)
    names = [port.any_name for port in network.inputs]
    network.reshape({name: calibrate[0][name].shape for name in names})
    kinds = {op.get_type_name() for op in network.get_ops()}
    made = nncf.quantize(
        network,
        nncf.Dataset([{name: feed[name] for name in names} for feed in calibrate]),
        subset_size=len(calibrate),
        model_type=nncf.ModelType.TRANSFORMER if {"MVN", "Softmax"} <= kinds else None,
    )
    compiled = core.compile_model(made, "CPU", {"INFERENCE_NUM_THREADS": 1})
    return lambda feed: [np.array(x) for x in compiled(feed).to_tuple()]


if __name__ == "__main__":
    main({"nncf": quantize})
