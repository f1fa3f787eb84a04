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
    type = type if initial is None else initial.type
    kept = _kept_type(n, type, initial)
    state = n.graph.session.module.state(n.proto.name, kept)
    if initial is None or not n.value_of(initial).any():
        return state, state
    changed = n.emit(Xor(), state, _bits(n, initial, kept.dtype))
    return _bits(n, changed, type.dtype), state


@tflite_op("STORE", domain=INTERNAL)
def store(n: TfliteNode) -> tuple[Value, ...]:
    """Keep the last value of a variable."""
    value, state, initial = n[0], n[1], n.get(2)
    assert isinstance(state, Placeholder)
    if _kept_type(n, value.type, initial) != state.type:
        raise ModelError(f"it is {state.type}, and {value.type} is assigned to it")
    if initial is not None and n.value_of(initial).any():
        bits = state.type.dtype
        value = n.emit(Xor(), _bits(n, value, bits), _bits(n, initial, bits))
    n.graph.function.update(state, value)
    return ()


def _kept_type(n: TfliteNode, type: TensorType, initial: Value | None) -> TensorType:
    """The type of the state of a variable: integers of its width if it does not begin as zeros."""
    if initial is None or not type.dtype.is_float or not n.value_of(initial).any():
        return type
    return type.with_dtype(_BITS[type.dtype.bits])


def _bits(n: TfliteNode, x: Value, dtype: DType) -> Value:
    return x if x.type.dtype is dtype else n.emit(BitCast(dtype), x)
