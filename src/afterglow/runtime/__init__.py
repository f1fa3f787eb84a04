"""Compiled models, as users call them, and what runs them."""

from afterglow.runtime.compiled import CompiledFunction, MemoryReport
from afterglow.runtime.load import load_model
from afterglow.runtime.model import CompiledModel
from afterglow.runtime.signature import Signature, TensorInfo

__all__ = [
    "CompiledFunction",
    "CompiledModel",
    "MemoryReport",
    "Signature",
    "TensorInfo",
    "load_model",
]
