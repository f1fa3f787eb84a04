"""Writing the few nodes that differ as an ONNX model, with inputs that show it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from afterglow.driver.array_files import save_arrays
from afterglow.frontends.definition.model import model_name
from afterglow.report.compare.onnx_sides import OnnxModel
from afterglow.report.compare.reduce import Part
from afterglow.support.atomic_file import replace_file, replacing
from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import unwritable
from afterglow.types import Array

PRODUCER = "Afterglow"


@dataclass(frozen=True)
class ReducedModel:
    """A small model that was written, and the command that shows the difference."""

    path: Path
    nodes: tuple[str, ...]
    """The names of its nodes, with their ops."""
    inputs: Path
    expected: Path | None
    """What the reference has, if it cannot run the small model itself."""
    command: str
    trials: int
    exhausted: bool

    def lines(self) -> list[str]:
        """The text, for people."""
        some = "1 node" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes"
        shown = ", ".join(self.nodes[:8]) + (" …" if len(self.nodes) > 8 else "")
        end = "; the search ended at its limit" if self.exhausted else ""
        return [
            f"reduced to {some} in {self.trials} trials{end}: {shown}",
            f"  {self.path} shows it: {self.command}",
        ]

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        return {
            "model": str(self.path),
            "inputs": str(self.inputs),
            "expected": None if self.expected is None else str(self.expected),
            "nodes": list(self.nodes),
            "command": self.command,
            "trials": self.trials,
            "exhausted": self.exhausted,
        }


def write_reduced(part: Part, model: OnnxModel, path: Path, reference: str | None) -> ReducedModel:
    """Write a part, its inputs, and what it should compute unless a reference can tell that."""
    proto = _small_model(part, model)
    inputs = path.with_suffix(".npz")
    expected = path.with_suffix(".expected.npz") if reference is None else None
    try:
        replace_file(path, [proto.SerializeToString(deterministic=True)])
        _save(inputs, part.inputs)
        if expected is not None:
            _save(expected, {part.wanted: part.expected})
    except OSError as error:
        raise unwritable(path, error) from None
    given = f" --input {inputs}" if part.inputs else ""
    return ReducedModel(
        path,
        tuple(f"{node.name or node.output[0]} ({node.op_type})" for node in proto.graph.node),
        inputs,
        expected,
        f"afterglow compare {path} --ref {expected or reference}{given}",
        part.trials,
        part.exhausted,
    )


def _save(path: Path, arrays: dict[str, Array]) -> None:
    with replacing(path) as file:
        save_arrays(file, arrays)


def _small_model(part: Part, model: OnnxModel) -> onnx.ModelProto:
    """The nodes of a part as a model of their own; versions and functions are as they were."""
    whole = model.whole()
    made = {model_name(n) for index in part.nodes for n in part.graph.nodes[index].output}
    nodes = [node for node in whole.graph.node if made & {*node.output}]
    fixed = {name: x for name, x in part.given.items() if name not in part.inputs}
    needed = {name for index in part.nodes for name in part.graph.reads[index]}
    graph = helper.make_graph(
        nodes,
        "reduced",
        [_info(name, x) for name, x in part.inputs.items()],
        [_info(part.wanted, part.actual)],
        [
            *(x for x in whole.graph.initializer if x.name in needed),
            *(numpy_helper.from_array(np.asarray(x), name) for name, x in fixed.items()),
        ],
        sparse_initializer=_sparse(whole.graph.sparse_initializer, needed),
    )
    small = helper.make_model(graph, opset_imports=whole.opset_import, functions=whole.functions)
    small.ir_version = whole.ir_version
    small.producer_name = PRODUCER
    if small.ByteSize() >= 2**31:
        raise UnsupportedError("the reduced model is larger than 2 GB, the limit of ONNX files")
    return small


def _sparse(
    tensors: Iterable[onnx.SparseTensorProto], needed: set[str]
) -> list[onnx.SparseTensorProto]:
    return [tensor for tensor in tensors if tensor.values.name in needed]


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape)
