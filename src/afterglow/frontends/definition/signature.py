"""What a model declares about its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from afterglow.frontends.definition.limits import check_rank
from afterglow.frontends.definition.model import DeclaredExtent, ModelDef, TypeDef, ValueDef
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType


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
    shape: tuple[DeclaredExtent, ...] | None = None

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


def model_signature(model: ModelDef) -> Signature:
    """The signature of a model. An input that has an initializer is none: that is its value."""
    graph = model.graph
    initialized = {tensor.name for tensor in graph.constants}
    inputs = [info for info in graph.input if info.name not in initialized]
    return Signature(_parameters(inputs, "input"), _parameters(graph.output, "output"))


def _parameters(infos: Sequence[ValueDef], role: str) -> tuple[Parameter, ...]:
    for number, info in enumerate(infos, 1):
        if not info.name:
            raise ModelError(f"{role} {number} of {len(infos)} has no name")
    return tuple(_parameter(info, role) for info in infos)


def _parameter(info: ValueDef, role: str) -> Parameter:
    try:
        return _declared(info, role)
    except AfterglowError as error:
        raise type(error)(f"{role} {info.name!r}: {error.what}") from None


def _declared(info: ValueDef, role: str) -> Parameter:
    match None if info.type is None else info.type.kind:
        case "tensor":
            assert info.type is not None
            return _tensor(info.name, info.type, role)
        case "sequence":
            return Parameter(info.name, ParameterKind.SEQUENCE)
        case "optional":
            return Parameter(info.name, ParameterKind.OPTIONAL)
        case "map":
            return Parameter(info.name, ParameterKind.MAP)
        case None if role == "output":
            return Parameter(info.name, ParameterKind.TENSOR)
        case None:
            raise ModelError("it has no type")
        case other:
            raise UnsupportedError(f"Afterglow has no {other} values")


def _tensor(name: str, type: TypeDef, role: str) -> Parameter:
    if type.element is None and role == "input":
        raise ModelError("it has no element type")
    check_rank(len(type.shape or ()), "it")
    return Parameter(name, ParameterKind.TENSOR, type.element, type.shape)
