"""Afterglow: an ahead-of-time compiler for neural networks."""

from importlib.metadata import version

from afterglow import onnx_backend
from afterglow.driver.compile import compile, import_model, load
from afterglow.graph import Builder, Function, Module, parse_module, print_module
from afterglow.runtime import CompiledModel
from afterglow.support.errors import AfterglowError
from afterglow.types import DType, TensorType

__version__ = version("afterglow")

__all__ = [
    "AfterglowError",
    "Builder",
    "CompiledModel",
    "DType",
    "Function",
    "Module",
    "TensorType",
    "compile",
    "import_model",
    "load",
    "onnx_backend",
    "parse_module",
    "print_module",
]
