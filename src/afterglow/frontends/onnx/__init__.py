"""The ONNX front end."""

from afterglow.frontends.base import NeedsValuesError, UnboundDimensionsError
from afterglow.frontends.onnx import contrib, importers, ml
from afterglow.frontends.onnx.binding import Binding, NamedExtents
from afterglow.frontends.onnx.importer import ModelImporter, import_onnx
from afterglow.frontends.onnx.reader import ModelFile, read_model
from afterglow.frontends.onnx.remainder import remainder_of
from afterglow.frontends.onnx.signature import (
    Parameter,
    ParameterKind,
    Signature,
    model_signature,
)

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
    "remainder_of",
]
