"""What values are: element and tensor types, arrays, and what programs take, give and need."""

from afterglow.types.array import Array
from afterglow.types.dtype import DType
from afterglow.types.dynamic import DynamicExtent, DynamicType, Extent, HostKind, HostType
from afterglow.types.index_range import IndexRange, IndexRanges
from afterglow.types.interface import FillLevel, Interface, Port
from afterglow.types.memory_plan import MemoryPlan
from afterglow.types.output_form import OutputForm, OutputKind
from afterglow.types.quantization import Quantization
from afterglow.types.tensor import TensorType

__all__ = [
    "Array",
    "DType",
    "DynamicExtent",
    "DynamicType",
    "Extent",
    "FillLevel",
    "HostKind",
    "HostType",
    "IndexRange",
    "IndexRanges",
    "Interface",
    "MemoryPlan",
    "OutputForm",
    "OutputKind",
    "Port",
    "Quantization",
    "TensorType",
]
