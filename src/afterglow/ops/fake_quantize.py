"""What a value would be if it were stored as integers, with gradients that look through it."""

from __future__ import annotations

from afterglow.graph import Builder, Gradients, Value, op
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Equal, Mul, Round, Sub, Where, scalar
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear, Quantizing
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import (
    normal_axis,
    require,
    require_dtype,
    require_float,
    require_same_dtype,
)
from afterglow.types import Array, DType, TensorType
from afterglow.types import dtype as d


@op("fake_quantize")
class FakeQuantize(Quantizing):
    """x quantized to integers of `dtype`, and back: what a quantized model computes, in floats.

    Gradients pass as if nothing were rounded, and are zero for what is clipped (straight-through).
    With `learns` the scale has one, too: that of arXiv 1902.08153, which moves the range.
    """

    axis: int = 1
    dtype: DType = d.i8
    learns: bool = False

    def infer(
        self, x: TensorType, scale: TensorType, zero_point: TensorType | None = None
    ) -> TensorType:
        """The type of x."""
        require_float(x=x)
        require_same_dtype(x=x, scale=scale)
        require(self.dtype.is_integer, f"dtype must be an integer, got {self.dtype}")
        require(not self.block_size, "blocks have no fake quantization")
        self.check(x, scale, zero_point)
        if zero_point is not None:
            require_dtype(self.dtype, zero_point=zero_point)
        return x

    def evaluate(self, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        """To integers and back."""
        stored = QuantizeLinear(self.axis, self.dtype).evaluate(x, scale, zero_point)
        back = DequantizeLinear(self.axis, DType.of(x.dtype))
        return back.evaluate(stored, scale, zero_point).astype(x.dtype)

    def lower(self, b: Builder, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
        """Rounded and clipped, without the integers."""
        step, zero = self.emit_spread(b, x, scale), self._zero(b, x, zero_point)
        _, inside = self._places(b, b.emit(Div(), x, step), zero)
        return b.emit(Mul(), b.emit(Sub(), inside, zero), step)

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        scale: Value,
        zero_point: Value | None = None,
    ) -> Gradients:
        """The gradient where nothing is clipped; of the scale, what rounding and clipping add."""
        zero = self._zero(b, x, zero_point)
        exact = b.emit(Div(), x, self.emit_spread(b, x, scale))
        places, inside = self._places(b, exact, zero)
        kept = b.emit(Equal(), inside, places)
        nothing = scalar(b, 0.0, grad)
        passed = b.emit(Where(), kept, grad, nothing)
        if not self.learns:
            return passed, None, None
        stored = b.emit(Sub(), inside, zero)
        moved = b.emit(Where(), kept, b.emit(Sub(), stored, exact), stored)
        return passed, self._sum_to(b, b.emit(Mul(), grad, moved), scale), None

    def _places(self, b: Builder, exact: Value, zero: Value) -> tuple[Value, Value]:
        """The integers of numbers that are divided by the scale, and the same clipped."""
        places = b.emit(Add(), b.emit(Round(), exact), zero)
        return places, b.emit(Clip(*map(float, self.dtype.limits)), places)

    def _sum_to(self, b: Builder, grad: Value, scale: Value) -> Value:
        """A gradient for each number of the scale."""
        if not scale.type.rank:
            return grad  # which is summed as that of any scalar
        axis = normal_axis(self.axis, grad.type)
        others = tuple(i for i in range(grad.type.rank) if i != axis)
        return b.emit(ReduceSum(others, keepdims=False), grad) if others else grad

    def _zero(self, b: Builder, x: Value, zero_point: Value | None) -> Value:
        if zero_point is None:
            return scalar(b, 0.0, x)
        return self.emit_spread(b, x, b.emit(Cast(x.type.dtype), zero_point))
