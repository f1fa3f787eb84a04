"""ONNX Runtime, and the reference implementation of ONNX, as references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator

from afterglow.report.compare.onnx_runtime import ONNXRUNTIME, cannot_run, onnxruntime_outputs
from afterglow.report.compare.sides import Feed, Tensors, tensors_of
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

REFERENCE = "reference"
_FOLDER = "session.model_external_initializers_file_folder_path"


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX model of its own, whose outputs can be others; weights may be in files beside it."""

    proto: onnx.ModelProto
    folder: Path | None = None

    @staticmethod
    def of(source: str | Path | bytes | onnx.ModelProto) -> OnnxModel:
        """From a file, bytes, or a message."""
        if isinstance(source, onnx.ModelProto):
            copy = onnx.ModelProto()
            copy.CopyFrom(source)
            return OnnxModel(copy)
        if isinstance(source, bytes):
            return OnnxModel(onnx.ModelProto.FromString(source))
        path = Path(source)
        return OnnxModel(onnx.load(path, load_external_data=False), path.absolute().parent)

    @cached_property
    def tensors(self) -> list[str]:
        """The tensors that nodes of the main graph compute."""
        return [name for node in self.proto.graph.node for name in node.output if name]

    def whole(self) -> onnx.ModelProto:
        """The model with all weights in it; not to be changed."""
        if self.folder is not None:
            try:
                onnx.load_external_data_for_model(self.proto, str(self.folder))
            except (OSError, onnx.checker.ValidationError) as error:
                raise ModelError(f"cannot read the weights: {error}") from None
        return self.proto

    @contextmanager
    def returning(self, names: Sequence[str]) -> Iterator[OnnxModel]:
        """The model with some tensors as its outputs; their types are for the engine to infer.

        It is changed for a while instead of copied: a model may take much of the memory.
        """
        outputs = self.proto.graph.output
        declared = {output.name: deepcopy(output) for output in outputs}
        wanted = [declared.get(name) or onnx.ValueInfoProto(name=name) for name in names]
        before = list(declared.values())
        try:
            del outputs[:]
            outputs.extend(wanted)
            yield self
        finally:
            del outputs[:]
            outputs.extend(before)


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
        with self.model.returning(names) as model:
            data = model.proto.SerializeToString()
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
            with self.model.returning(names) as model:
                evaluator = ReferenceEvaluator(model.whole())
            taken = {name: given[name] for name in evaluator.input_names if name in given}
            outputs: Any = evaluator.run(list(names), taken)
            return _named(names, outputs)
        except ModelError:
            raise
        except Exception as error:  # its errors have no common base but this
            raise cannot_run(f"onnx.{REFERENCE}", error) from None


def _named(names: Sequence[str], outputs: Sequence[Any]) -> Tensors:
    pairs = zip(names, outputs, strict=True)
    return dict(tensor for name, output in pairs for tensor in tensors_of(name, output))
