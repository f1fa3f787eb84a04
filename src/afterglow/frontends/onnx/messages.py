"""The classes of ONNX's messages, without the rest of the library that defines them.

`import onnx` also brings what checks, converts and infers, which takes five times the time and the
memory. The module with the classes needs protobuf alone, which makes one class of each kind of
message, whoever asks first: those of a later `import onnx` are the same.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = [
    "AttributeProto",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "OperatorSetIdProto",
    "SparseTensorProto",
    "TensorProto",
    "TensorShapeProto",
    "ValueInfoProto",
]

_LIBRARY = "onnx"
_HOME = "onnx.onnx_ml_pb2"


def _home() -> ModuleType:
    """The module of the classes: executed alone if it can be, or else with all of the library.

    Alone it is not registered, so that a later `import onnx` is complete.
    """
    library = None if _LIBRARY in sys.modules else find_spec(_LIBRARY)
    spec = library and PathFinder.find_spec(_HOME, library.submodule_search_locations)
    if not spec or not spec.loader:
        return import_module(_HOME)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        OperatorSetIdProto,
        SparseTensorProto,
        TensorProto,
        TensorShapeProto,
        ValueInfoProto,
    )
else:
    globals().update({name: getattr(_home(), name) for name in __all__})
