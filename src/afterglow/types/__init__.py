"""Element types, tensor types and quantization parameters."""

from afterglow.types.dtype import DType
from afterglow.types.quantization import Quantization
from afterglow.types.tensor import TensorType

__all__ = ["DType", "Quantization", "TensorType"]
