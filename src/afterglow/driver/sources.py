"""Where a model comes from: a file, bytes, a proto, or a module built by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import onnx

from afterglow.driver.options import Options
from afterglow.frontends.onnx import (
    Binding,
    ModelImporter,
    Parameter,
    model_signature,
    read_model,
)
from afterglow.graph import Module, verify_module
from afterglow.runtime import Signature, TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import OutputForm
from afterglow.types.output_form import tensor_forms


class Source(Protocol):
    """A model that can be loaded, again for other bindings."""

    def load(self, options: Options) -> tuple[Module, tuple[OutputForm, ...]]:
        """A fresh module that the caller may rewrite, and how its outputs are grouped."""

    def signature(self, options: Options) -> Signature:
        """What the model takes and gives, as far as the options bind it."""


def open_source(source: Any) -> Source:
    """Find out what kind of model was given."""
    match source:
        case Module():
            return ModuleSource(source)
        case str() | Path() | bytes() | onnx.ModelProto():
            return OnnxSource(source)
    raise UsageError(
        f"cannot compile a {type(source).__name__}",
        help="give a path, bytes, an onnx.ModelProto or an afterglow.Module",
    )


class ModuleSource:
    """A module built by hand; it is never changed."""

    def __init__(self, module: Module) -> None:
        verify_module(module)
        self.module = module

    def load(self, options: Options) -> tuple[Module, tuple[OutputForm, ...]]:
        """A copy; each output is a tensor."""
        if options.shapes or options.dims or options.values:
            raise UsageError("a module has exact shapes: there is nothing to bind")
        return self.module.clone(), tensor_forms([o.name for o in self.module.main.outputs])

    def signature(self, options: Options) -> Signature:
        """The main function's."""
        main = self.module.main
        return Signature(
            tuple(TensorInfo(v.name, v.type.dtype, v.type.shape) for v in main.inputs),
            tuple(TensorInfo(o.name, o.value.type.dtype, o.value.type.shape) for o in main.outputs),
        )


class OnnxSource:
    """An ONNX model, read once and imported for each binding."""

    def __init__(self, source: str | Path | bytes | onnx.ModelProto) -> None:
        self.file = read_model(source)

    def load(self, options: Options) -> tuple[Module, tuple[OutputForm, ...]]:
        """Import it."""
        return ModelImporter(self.file, _binding(options)).run()

    def signature(self, options: Options) -> Signature:
        """What the file declares, with what the options bind filled in."""
        declared = model_signature(self.file)
        inputs = (p for p in declared.inputs if p.name not in options.values)
        return Signature(
            tuple(_info(parameter, options) for parameter in inputs),
            tuple(_info(parameter, options) for parameter in declared.outputs),
        )


def _info(parameter: Parameter, options: Options) -> TensorInfo:
    shape: Sequence[int | str | None] | None = options.shapes.get(parameter.name, parameter.shape)
    if shape is not None:
        dims = options.dims
        shape = tuple(dims.get(e, e) if isinstance(e, str) else e for e in shape)
    return TensorInfo(parameter.name, parameter.dtype, shape)


def _binding(options: Options) -> Binding:
    return Binding(shapes=options.shapes, dims=options.dims, values=options.values)
