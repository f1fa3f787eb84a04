"""Models without their weights, which are drawn again elsewhere: kilobytes instead of megabytes.

Weights of timed models need not be the same, only alike: small tensors are kept, large ones are
described by mean and deviation, of each filter where there are filters, so that what a batch
normalization or a scale expects of a layer still holds.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
KEPT = 4096
"""Elements of a tensor that is kept as it is."""
FILTERED = 3
"""Axes from which the first is one of filters."""


def write_skeleton(model: Path, folder: Path) -> None:
    """The graph with its small tensors, and a description of each large one."""
    proto = onnx.load(model)
    described: dict[str, Array] = {}
    for tensor in proto.graph.initializer:
        if np.prod(tensor.dims) > KEPT and tensor.data_type != onnx.TensorProto.STRING:
            described[tensor.name] = describe(numpy_helper.to_array(tensor))
            tensor.CopyFrom(_empty(tensor))
    onnx.save(proto, folder / model.name)
    np.savez(folder / f"{model.stem}.npz", **described)  # type: ignore[arg-type]  # NumPy's stub


def write_model(skeleton: Path, target: Path) -> None:
    """The model of a skeleton, with weights that are the same in each run."""
    proto = onnx.load(skeleton, load_external_data=False)
    with np.load(skeleton.with_suffix(".npz")) as described:
        for tensor in proto.graph.initializer:
            if tensor.name in described:
                kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
                drawn = draw(described[tensor.name], tuple(tensor.dims), kind, tensor.name)
                tensor.CopyFrom(numpy_helper.from_array(drawn, tensor.name))
    onnx.save(proto, target)


def describe(array: Array) -> Array:
    """Mean, deviation, least and most: columns; of each filter, or one for all."""
    rows = array.astype(np.float64).reshape(len(array) if array.ndim >= FILTERED else 1, -1)
    facts = [rows.mean(1), rows.std(1), rows.min(1), rows.max(1)]
    return np.stack(facts, 1).astype(np.float32)


def draw(described: Array, shape: tuple[int, ...], kind: np.dtype[Any], name: str) -> Array:
    """Numbers with these means and deviations, within these limits."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    size = int(np.prod(shape)) // len(described)
    rows = random.standard_normal((len(described), size), np.float32)
    if size > 1 and len(described) > 1:
        rows = (rows - rows.mean(1, keepdims=True)) / np.maximum(rows.std(1, keepdims=True), 1e-6)
    mean, deviation, least, most = (column[:, None] for column in described.T)
    rows = np.clip(rows * deviation + mean, least, most)
    return (np.rint(rows) if kind.kind in "iu" else rows).astype(kind).reshape(shape)


def _empty(tensor: onnx.TensorProto) -> onnx.TensorProto:
    return onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
