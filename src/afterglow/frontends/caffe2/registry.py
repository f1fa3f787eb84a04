"""The table of Caffe2's importers, and what they see of an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.dialect import Dialect, Importer, Results
from afterglow.frontends.definition.model import AttributeKind
from afterglow.graph import Value
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import DType
from afterglow.types import dtype as d

_RANDOM = ("UniformFill", "GaussianFill", "XavierFill", "MSRAFill", "UniformIntFill", "RandomFill")
_ELEMENT_TYPES: dict[int, DType] = {
    1: d.f32,
    2: d.i32,
    3: d.u8,
    4: d.string,
    5: d.boolean,
    6: d.u8,
    7: d.i8,
    8: d.u16,
    9: d.i16,
    10: d.i64,
    12: d.f16,
    13: d.f64,
}
"""The numbers of `TensorProto.DataType`."""


class Caffe2Dialect(Dialect):
    """Caffe2: ops have no versions."""

    def missing(self, domain: str, op_type: str, version: int) -> AfterglowError:
        """Why there is no importer: some could not mean the same each time."""
        if op_type in _RANDOM:
            return UnsupportedError(
                "its values are random: this net begins a training",
                help="give the init net of a trained model",
            )
        return UnsupportedError(
            "this op is not supported", help="docs/caffe2.md lists those that are"
        )

    def element_type(self, number: int) -> DType:
        """The element type that Caffe2 numbers so."""
        if number not in _ELEMENT_TYPES:
            raise ModelError(f"there is no element type {number}")
        return _ELEMENT_TYPES[number]


class Caffe2Node(NodeContext):
    """An operator of a net: a list of one may be written as a single value, and the reverse."""

    def _required(self, name: str, default: Any, *kinds: AttributeKind) -> Any:
        found = self.attributes.get(name)
        wanted = kinds[0]
        if found is not None and found.kind is _SINGLE.get(wanted):
            return (found.value,)
        if wanted is AttributeKind.FLOATS:
            kinds = (*kinds, AttributeKind.INTS)
        return super()._required(name, default, *kinds)

    @property
    def is_nhwc(self) -> bool:
        """Whether images have their channels last."""
        return self.choice("order", {"NCHW": False, "NHWC": True}, "NCHW")

    @property
    def channel_axis(self) -> int:
        """The axis of channels."""
        return -1 if self.is_nhwc else 1

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer that is a truth value."""
        return bool(self.integer(name, int(default)))

    def spatial(self, x: Value) -> tuple[int, ...]:
        """The extents of an image without batch and channels."""
        if x.type.rank < 3:
            raise ModelError(f"{x.name!r} must be an image of 3 or more axes, it is {x.type}")
        return x.type.shape[1:-1] if self.is_nhwc else x.type.shape[2:]

    def image(self, x: Value) -> Value:
        """An operand with its channels last."""
        return x if self.is_nhwc else to_channels_last(self, x)

    def result(self, y: Value) -> Value:
        """A result, which has its channels last, in the order of the net."""
        return y if self.is_nhwc else to_channels_first(self, y)

    def axis(self, x: Value, name: str = "axis", default: int = 1) -> int:
        """An axis of an operand, counted from the front."""
        axis, rank = self.integer(name, default), x.type.rank
        if not -rank <= axis < rank:
            raise ModelError(f"attribute {name!r} is {axis}, x is {x.type}")
        return axis % rank

    def axes(self, x: Value, name: str) -> tuple[int, ...] | None:
        """Axes of an operand, counted from the front; None if none are named."""
        if not self.has(name):
            return None
        axes, rank = self.integers(name), x.type.rank
        if any(not -rank <= axis < rank for axis in axes):
            raise ModelError(f"attribute {name!r} is {axes}, x is {x.type}")
        return tuple(sorted({axis % rank for axis in axes}))


_SINGLE = {
    AttributeKind.INTS: AttributeKind.INT,
    AttributeKind.FLOATS: AttributeKind.FLOAT,
    AttributeKind.STRINGS: AttributeKind.STRING,
}

CAFFE2 = Caffe2Dialect("caffe2", Caffe2Node)


ImporterT = TypeVar("ImporterT", bound=Callable[[Caffe2Node], Results])


def caffe2_op(*op_types: str) -> Callable[[ImporterT], ImporterT]:
    """Register an importer for operators of these types."""

    def register(function: ImporterT) -> ImporterT:
        CAFFE2.op(*op_types)(cast(Importer, function))
        return function

    return register


def flattened(n: NodeContext, x: Value, axis: int) -> tuple[int, int]:
    """The extents of x as a matrix: axes before one, and from it on."""
    return _product(x.type.shape[:axis]), _product(x.type.shape[axis:])


def _product(extents: Sequence[int]) -> int:
    product = 1
    for extent in extents:
        product = product * extent
    return product
