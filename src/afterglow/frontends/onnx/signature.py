"""What a model declares about its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import onnx

from afterglow.frontends.onnx.elements import dtype_of
from afterglow.frontends.onnx.limits import check_rank
from afterglow.frontends.onnx.reader import ModelFile
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import DType

_NAMELESS = ("", "?")
"""How exporters spell a free dimension without a name; several of them may have several extents."""

Extent: TypeAlias = "int | str | None"
"""A number, the name of a free dimension, or None for a free one without a name."""


class ParameterKind(Enum):
    """What an input or output is."""

    TENSOR = "tensor"
    SEQUENCE = "sequence"
    OPTIONAL = "optional"
    MAP = "map"


@dataclass(frozen=True)
class Parameter:
    """An input or output as declared.

    The shape is None if not even the number of axes is declared. The element type is None if it is
    not declared, which only an output may do, or if this is no tensor.
    """

    name: str
    kind: ParameterKind
    dtype: DType | None = None
    shape: tuple[Extent, ...] | None = None

    def __str__(self) -> str:
        return f"{self.name!r}: {self.type_text}"

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape can be what is declared."""
        if self.shape is None:
            return True
        pairs = zip(self.shape, shape, strict=False)
        known = all(one == other for one, other in pairs if isinstance(one, int))
        return known and len(self.shape) == len(shape)

    @property
    def type_text(self) -> str:
        """What it is, such as `f32[batch, 3]`."""
        if self.kind is not ParameterKind.TENSOR:
            return str(self.kind.value)
        shape = self.shape if self.shape is not None else ("…",)
        extents = ", ".join("?" if extent is None else str(extent) for extent in shape)
        return f"{self.dtype or '?'}[{extents}]"


@dataclass(frozen=True)
class Signature:
    """The inputs that a caller gives, and the outputs that come back."""

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]


def model_signature(model: ModelFile) -> Signature:
    """The signature of a model. An input that has an initializer is none: that is its value."""
    graph = model.proto.graph
    initialized = {tensor.name for tensor in graph.initializer}
    initialized.update(sparse.values.name for sparse in graph.sparse_initializer)
    inputs = [info for info in graph.input if info.name not in initialized]
    return Signature(_parameters(inputs, "input"), _parameters(graph.output, "output"))


def _parameters(infos: Sequence[onnx.ValueInfoProto], role: str) -> tuple[Parameter, ...]:
    for number, info in enumerate(infos, 1):
        if not info.name:
            raise ModelError(f"{role} {number} of {len(infos)} has no name")
    return tuple(_parameter(info, role) for info in infos)


def _parameter(info: onnx.ValueInfoProto, role: str) -> Parameter:
    try:
        return _declared(info, role)
    except AfterglowError as error:
        raise type(error)(f"{role} {info.name!r}: {error.what}") from None


def _declared(info: onnx.ValueInfoProto, role: str) -> Parameter:
    match info.type.WhichOneof("value"):
        case "tensor_type":
            return _tensor(info.name, info.type.tensor_type, role)
        case "sequence_type":
            return Parameter(info.name, ParameterKind.SEQUENCE)
        case "optional_type":
            return Parameter(info.name, ParameterKind.OPTIONAL)
        case "map_type":
            return Parameter(info.name, ParameterKind.MAP)
        case None if role == "output":
            return Parameter(info.name, ParameterKind.TENSOR)
        case None:
            raise ModelError("it has no type")
        case other:
            raise UnsupportedError(f"Afterglow has no {other.removesuffix('_type')} values")


def _tensor(name: str, type: onnx.TypeProto.Tensor, role: str) -> Parameter:
    undeclared = role == "output" and type.elem_type == onnx.TensorProto.UNDEFINED
    dtype = None if undeclared else dtype_of(type.elem_type)
    shape = tuple(map(_extent, type.shape.dim)) if type.HasField("shape") else None
    check_rank(len(shape or ()), "it")
    return Parameter(name, ParameterKind.TENSOR, dtype, shape)


def _extent(dim: onnx.TensorShapeProto.Dimension) -> Extent:
    """Exporters write -1 as well as nothing for an extent that they leave open."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return None if dim.dim_param in _NAMELESS else dim.dim_param
