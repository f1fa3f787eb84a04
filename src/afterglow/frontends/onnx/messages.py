"""The classes of ONNX's messages, without the rest of the library that defines them.

`import onnx` also brings what checks, converts and infers, which takes four times the time and five
times the memory. The module with the classes needs protobuf alone. It is loaded under its own name,
so that a later `import onnx` takes the same: a message never has two classes.
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
    """The module of the classes: loaded alone if it can be, or else with all of the library."""
    library = None if _HOME in sys.modules else find_spec(_LIBRARY)
    spec = library and PathFinder.find_spec(_HOME, library.submodule_search_locations)
    if not spec or not spec.loader:
        return import_module(_HOME)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    # only now, so that no other thread finds it without its classes
    return sys.modules.setdefault(_HOME, module)


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
