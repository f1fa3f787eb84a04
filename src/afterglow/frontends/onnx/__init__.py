"""The ONNX front end. What needs the library that reads ONNX files is imported when it is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from afterglow.frontends.base import NeedsValuesError, UnboundDimensionsError
from afterglow.frontends.definition.binding import Binding, NamedExtents
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.definition.signature import (
    Parameter,
    ParameterKind,
    Signature,
    model_signature,
)
from afterglow.frontends.onnx import contrib, importers, ml

if TYPE_CHECKING:
    from afterglow.frontends.onnx.reader import ModelFile, read_model
    from afterglow.frontends.onnx.source import import_onnx

__all__ = [
    "Binding",
    "ModelFile",
    "ModelImporter",
    "NamedExtents",
    "NeedsValuesError",
    "Parameter",
    "ParameterKind",
    "Signature",
    "UnboundDimensionsError",
    "contrib",
    "import_onnx",
    "importers",
    "ml",
    "model_signature",
    "read_model",
]

_LATER = {"ModelFile": "reader", "read_model": "reader", "import_onnx": "source"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
