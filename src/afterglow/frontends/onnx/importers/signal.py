"""ONNX's ops of signal processing."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.indexing import Gather, multiples
from afterglow.ops.rules import normal_axis
from afterglow.ops.signal import Dft
from afterglow.support.errors import ModelError
from afterglow.types import TensorType
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, larger_extent


@onnx_op("DFT")
def dft_axis_attribute(n: NodeContext) -> Value:
    """The axis as an attribute."""
    return _dft(n, n.integer("axis", 1))


@onnx_op("DFT", since=20)
def dft_axis_input(n: NodeContext) -> Value:
    """The axis as an input."""
    return _dft(n, n.known_int(2) if n.get(2) is not None else -2)


def _dft(n: NodeContext, axis: int) -> Value:
    """The length is that of the signal, or that of the signal whose half spectrum is given."""
    axis = normal_axis(axis, n[0].type)
    inverse, onesided = bool(n.integer("inverse", 0)), bool(n.integer("onesided", 0))
    length = n[0].type.shape[axis]
    if n.get(1) is not None:
        length = n.known_int(1)
    elif inverse and onesided:
        length = 2 * (length - 1)
    return n.emit(Dft(axis, length, inverse, onesided), n[0])


@onnx_op("STFT")
def stft(n: NodeContext) -> Value:
    """The transform of overlapping frames of the signal, each times the window."""
    signal, window = _with_parts(n, n[0]), n.get(2)
    step = n.known_int(1)
    length = signal.type.shape[1] if window is None else n.extents(window, 1)[0]
    if n.get(3) is not None:
        length = n.known_int(3)
    if step < 1 or length < 1:
        raise ModelError(f"frames of {length} cannot be {step} apart")
    count = (signal.type.shape[1] - length) // step + 1
    n.check_size(TensorType(i64, (larger_extent(0, count), larger_extent(0, length))))
    frames = n.emit(Gather(1), signal, _places(n, count, step, length))
    if window is not None:
        frames = n.emit(Mul(), frames, reshaped(n, window, (length, 1)))
    onesided = bool(n.integer("onesided", 1)) and signal.type.shape[2] == 1
    return n.emit(Dft(2, length, onesided=onesided), frames)


def _places(n: NodeContext, count: int, step: int, length: int) -> Value:
    """Which elements each frame has."""
    if not is_ranged(count) and not is_ranged(length):
        return n.constant(np.arange(count)[:, np.newaxis] * step + np.arange(length))
    starts = multiples(n.builder, (count, 1), step, "starts")
    return n.emit(Add(), starts, multiples(n.builder, (1, length), 1, "places"))


def _with_parts(n: NodeContext, signal: Value) -> Value:
    """A real signal may be given without the axis of its parts: ONNX Runtime takes it, too."""
    if signal.type.rank == 2:
        return reshaped(n, signal, (*signal.type.shape, 1))
    n.extents(signal, 3)
    return signal
