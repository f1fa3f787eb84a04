"""Models whose shapes are all known, for engines that can convert no others."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .engine import Job


def bound_model(job: Job) -> Any:
    """The model as ONNX's Python package has it, its inputs of the shapes that they will have."""
    onnx: Any = import_module("onnx")
    model = onnx.load(job.model)
    if not _is_free(model):
        return model
    for value in model.graph.input:
        if value.name in job.shapes:
            dims = value.type.tensor_type.shape.dim
            for dim, extent in zip(dims, job.shapes[value.name], strict=True):
                dim.dim_value = extent
    del model.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model)


def bound_path(job: Job) -> str:
    """A file with that model: the model's own, if all shapes are known there."""
    onnx: Any = import_module("onnx")
    if not _is_free(onnx.load(job.model, load_external_data=False)):
        return job.model
    path = job.folder / "bound.onnx"
    onnx.save(bound_model(job), path)
    return str(path)


def _is_free(model: Any) -> bool:
    """Whether an input has a dimension without a number."""
    given = {tensor.name for tensor in model.graph.initializer}
    return any(
        not dim.HasField("dim_value")
        for value in model.graph.input
        if value.name not in given
        for dim in value.type.tensor_type.shape.dim
    )
