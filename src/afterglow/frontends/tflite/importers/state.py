"""Variables of TFLite models as state of ours.

State begins as zeros; a variable whose first value is another one is kept as the bits in which it
differs from that.
"""

from __future__ import annotations

from afterglow.frontends.tflite.elements import dtype_of
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import INTERNAL, tflite_op
from afterglow.graph import Placeholder, Value
from afterglow.ops.elementwise import BitCast, Xor
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types import DType, TensorType
from afterglow.types import dtype as dtypes

_BITS = {16: dtypes.i16, 32: dtypes.i32, 64: dtypes.i64}


@tflite_op("VARIABLE", domain=INTERNAL)
def variable(n: TfliteNode) -> tuple[Value, Value]:
    """The value of a variable when a run begins, and its state."""
    if n.is_driven:
        raise UnsupportedError("variables are not supported where the host runs the model")
    initial = n.get(0)
    type = TensorType(dtype_of(n.text("type")), n.integers("shape"))
    if initial is not None:
        type = initial.type
    state = n.graph.session.module.state(n.proto.name, type)
    return _changed(n, state, initial), state


@tflite_op("STORE", domain=INTERNAL)
def store(n: TfliteNode) -> tuple[Value, ...]:
    """Keep the last value of a variable."""
    state = n[1]
    assert isinstance(state, Placeholder)
    if n[0].type != state.type:
        raise ModelError(f"it is {state.type}, and {n[0].type} is assigned to it")
    n.graph.function.update(state, _changed(n, n[0], n.get(2)))
    return ()


def _changed(n: TfliteNode, value: Value, initial: Value | None) -> Value:
    """The bits in which a value differs from the first one, and back."""
    if initial is None or not n.value_of(initial).any():
        return value
    bits = _integers_like(value.type.dtype)
    if bits is value.type.dtype:
        return n.emit(Xor(), value, initial)
    changed = n.emit(Xor(), n.emit(BitCast(bits), value), n.emit(BitCast(bits), initial))
    return n.emit(BitCast(value.type.dtype), changed)


def _integers_like(dtype: DType) -> DType:
    return _BITS[dtype.bits] if dtype.is_float else dtype
