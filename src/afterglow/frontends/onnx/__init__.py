"""The ONNX front end."""

from afterglow.frontends.onnx import contrib, importers, ml
from afterglow.frontends.onnx.binding import Binding, NamedExtents, UnboundDimensionsError
from afterglow.frontends.onnx.bodies import RUN_NUMBER, BodyGraph, RunBody
from afterglow.frontends.onnx.host import HostNodes
from afterglow.frontends.onnx.importer import ModelImporter, import_onnx
from afterglow.frontends.onnx.limits import HostLimits
from afterglow.frontends.onnx.parts import FEW, Cut, Given, Part, needed_nodes
from afterglow.frontends.onnx.problems import NeedsValuesError
from afterglow.frontends.onnx.reader import ModelFile, read_model
from afterglow.frontends.onnx.remainder import Remainder, remainder_of
from afterglow.frontends.onnx.signature import (
    Parameter,
    ParameterKind,
    Signature,
    model_signature,
)

__all__ = [
    "FEW",
    "RUN_NUMBER",
    "Binding",
    "BodyGraph",
    "Cut",
    "Given",
    "HostLimits",
    "HostNodes",
    "ModelFile",
    "ModelImporter",
    "NamedExtents",
    "NeedsValuesError",
    "Parameter",
    "ParameterKind",
    "Part",
    "Remainder",
    "RunBody",
    "Signature",
    "UnboundDimensionsError",
    "contrib",
    "import_onnx",
    "importers",
    "ml",
    "model_signature",
    "needed_nodes",
    "read_model",
    "remainder_of",
]
