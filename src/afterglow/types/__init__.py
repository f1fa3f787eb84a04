"""Element types, tensor types, quantization parameters, and what outputs are made into."""

from afterglow.types.dtype import DType
from afterglow.types.output_form import OutputForm, OutputKind
from afterglow.types.quantization import Quantization
from afterglow.types.tensor import TensorType

__all__ = ["DType", "OutputForm", "OutputKind", "Quantization", "TensorType"]
