"""Exported models, checked by ONNX's own rules and run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnxruntime

from afterglow.exporters.onnx import to_onnx
from afterglow.graph import Module
from afterglow.types import Array

onnxruntime.set_default_logger_severity(4)


def export(module: Module) -> onnx.ModelProto:
    """A module as ONNX, which passes the checker and shape inference."""
    model = to_onnx(module)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: onnx.ModelProto, feed: Mapping[str, Array], *, optimise: bool = True) -> list[Array]:
    """What ONNX Runtime gives, with its own optimisations or as the file says."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimise:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    return list(session.run(None, dict(feed)))


def op_types(model: onnx.ModelProto) -> list[str]:
    """The op types of the nodes, in order."""
    return [node.op_type for node in model.graph.node]
