"""ONNX Runtime, and the reference implementation of ONNX, as references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator

from afterglow.report.compare.onnx_runtime import ONNXRUNTIME, cannot_run, onnxruntime_outputs
from afterglow.report.compare.sides import Feed, Tensors, tensors_of
from afterglow.support.errors import ModelError
from afterglow.types import Array

REFERENCE = "reference"
_FOLDER = "session.model_external_initializers_file_folder_path"


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX model whose outputs can be others; weights may be in files beside it."""

    proto: onnx.ModelProto
    folder: Path | None = None

    @staticmethod
    def of(source: str | Path | bytes | onnx.ModelProto) -> OnnxModel:
        """From a file, bytes, or a message."""
        if isinstance(source, onnx.ModelProto):
            return OnnxModel(source)
        if isinstance(source, bytes):
            return OnnxModel(onnx.ModelProto.FromString(source))
        path = Path(source)
        return OnnxModel(onnx.load(path, load_external_data=False), path.absolute().parent)

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [output.name for output in self.proto.graph.output]

    @cached_property
    def tensors(self) -> list[str]:
        """The tensors that nodes of the main graph compute."""
        return [name for node in self.proto.graph.node for name in node.output if name]

    def whole(self) -> onnx.ModelProto:
        """The model with all weights in it."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        if self.folder is not None:
            try:
                onnx.load_external_data_for_model(copy, str(self.folder))
            except (OSError, onnx.checker.ValidationError) as error:
                raise ModelError(f"cannot read the weights: {error}") from None
        return copy

    def returning(self, names: Sequence[str]) -> onnx.ModelProto:
        """The model with some tensors as its outputs; their types are for the engine to infer."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        declared = {output.name: output for output in self.proto.graph.output}
        del copy.graph.output[:]
        copy.graph.output.extend(
            declared.get(name) or onnx.ValueInfoProto(name=name) for name in names
        )
        return copy


@dataclass(frozen=True)
class OnnxRuntimeSide:
    """ONNX Runtime, with its graph optimisations disabled."""

    model: OnnxModel
    names: Sequence[str]
    values: Mapping[str, Array] = field(default_factory=dict)
    """Inputs that are constants of the compiled model."""
    label: str = ONNXRUNTIME

    def run(self, names: Sequence[str], feed: Feed) -> Tensors:
        """Run the model with these outputs."""
        data = self.model.returning(names).SerializeToString()
        options = {} if self.model.folder is None else {_FOLDER: str(self.model.folder)}
        outputs = onnxruntime_outputs(data, {**self.values, **feed}, options)
        return _named(names, outputs)


@dataclass(frozen=True)
class OnnxReferenceSide:
    """The reference implementation that the package `onnx` has, in NumPy."""

    model: OnnxModel
    names: Sequence[str]
    values: Mapping[str, Array] = field(default_factory=dict)
    label: str = REFERENCE

    def run(self, names: Sequence[str], feed: Feed) -> Tensors:
        """Run the model node by node."""
        given = {**self.values, **feed}
        try:
            model = OnnxModel(self.model.returning(names), self.model.folder).whole()
            inputs = {info.name for info in model.graph.input}
            taken = {name: x for name, x in given.items() if name in inputs}
            outputs: Any = ReferenceEvaluator(model).run(list(names), taken)
            return _named(names, outputs)
        except ModelError:
            raise
        except Exception as error:  # its errors have no common base but this
            raise cannot_run(f"onnx.{REFERENCE}", error) from None


def _named(names: Sequence[str], outputs: Sequence[Any]) -> Tensors:
    pairs = zip(names, outputs, strict=True)
    return dict(tensor for name, output in pairs for tensor in tensors_of(name, output))
