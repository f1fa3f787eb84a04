"""Quantize a model by ONNX Runtime: see `quantization_peers`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.version_converter
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.quantization_peers import Feed, Quantize, Run, main

LEAST_OPSET = 13


def run(model: Path) -> Run:
    """Runs of a model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feed: session.run(None, feed)


class Reader(quantization.CalibrationDataReader):
    """Hands out samples one by one."""

    def __init__(self, feeds: list[Feed]) -> None:
        self.left: Iterator[Feed] = iter(feeds)

    def get_next(self) -> Feed | None:
        """The next sample, None after the last."""
        return next(self.left, None)


def static(method: quantization.CalibrationMethod) -> Quantize:
    """Static quantization as the documents advise: QDQ, weights by channel, prepared before.

    All samples are calibrated at once: with `CalibMaxIntermediateOutputs` some ranges get lost.
    """

    def quantize(model: Path, calibrate: list[Feed]) -> Run:
        with tempfile.TemporaryDirectory() as folder:
            names = ("recent", "ready", "made")
            recent, ready, made = (Path(folder) / f"{name}.onnx" for name in names)
            onnx.save(_recent(model), recent)  # of a model in memory it can lose the weights
            try:
                quant_pre_process(recent, ready)
            except Exception:  # its symbolic shapes cannot do every model
                quant_pre_process(recent, ready, skip_symbolic_shape=True)
            quantization.quantize_static(
                *(ready, made, Reader(calibrate)),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                calibrate_method=method,
            )
            return run(made)

    return quantize


def _recent(model: Path) -> onnx.ModelProto:
    """A model in an operator set that has weights quantized by channel."""
    proto = onnx.load(model)
    own = next(part.version for part in proto.opset_import if not part.domain)
    if own >= LEAST_OPSET:
        return proto
    return onnx.version_converter.convert_version(proto, LEAST_OPSET)


TOOLS: dict[str, Quantize] = {
    "float": lambda model, _: run(model),
    "ort-minmax": static(quantization.CalibrationMethod.MinMax),
    "ort-entropy": static(quantization.CalibrationMethod.Entropy),
}

if __name__ == "__main__":
    main(TOOLS)
