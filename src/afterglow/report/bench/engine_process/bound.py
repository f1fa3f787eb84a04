"""Models with dynamic dimensions bound, for engines that convert only static shapes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .engine import BenchJob


def bound_model(job: BenchJob) -> Any:
    """The model as an `onnx.ModelProto`, with the shapes of its inputs bound."""
    onnx: Any = import_module("onnx")
    model = onnx.load(job.model)
    if not _is_dynamic(model):
        return model
    for value in model.graph.input:
        if value.name in job.shapes:
            dims = value.type.tensor_type.shape.dim
            for dim, extent in zip(dims, job.shapes[value.name], strict=True):
                dim.dim_value = extent
    del model.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model)


def bound_path(job: BenchJob) -> str:
    """The path of the bound model: the original file if all its shapes are static."""
    onnx: Any = import_module("onnx")
    if not _is_dynamic(onnx.load(job.model, load_external_data=False)):
        return job.model
    path = job.folder / "bound.onnx"
    onnx.save(bound_model(job), path)
    return str(path)


def _is_dynamic(model: Any) -> bool:
    """Whether an input has a dynamic dimension."""
    given = {tensor.name for tensor in model.graph.initializer}
    return any(
        not dim.HasField("dim_value")
        for value in model.graph.input
        if value.name not in given
        for dim in value.type.tensor_type.shape.dim
    )
