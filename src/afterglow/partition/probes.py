"""The small programs that are timed on a device to learn its rates."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.sample_inputs import sample_array
from afterglow.graph import Builder, Module, Op, Value
from afterglow.ops import (
    activation,
    conversion,
    convolution,
    elementwise,
    functions,
    image,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
)
from afterglow.ops.attention import Attention
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.ops.recurrent import GRU, LSTM
from afterglow.ops.softmax import Softmax
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types import dtype as d

_LEVELS = tuple(3 << power for power in (16, 19, 21, 23, 25))
"""Bytes that the sums work on which bandwidths are measured by: the last exceeds most caches."""
_CHAIN = 32
"""Steps of the program that tells what a step takes besides its work."""


@dataclass(frozen=True)
class Probe:
    """An op on operands of some types; the last ones are constants."""

    op: Op
    inputs: tuple[TensorType, ...]
    constants: tuple[TensorType, ...] = ()
    repeat: int = 1
    """How often the op is applied to its own result."""

    def module(self) -> Module:
        """The program."""
        module = Module("probe")
        function = module.new_function("main")
        b = Builder(function)
        operands: list[Value] = [
            function.input(f"x{i}", type) for i, type in enumerate(self.inputs)
        ]
        constants = [b.constant(sample_array(type)) for type in self.constants]
        for _ in range(self.repeat):
            result = b.emit_all(self.op, *operands, *constants)[0]
            operands = [result, *operands[1:]]
        function.output("y", result)
        return module

    def arrays(self) -> list[Array]:
        """Inputs to run it on."""
        return [sample_array(type) for type in self.inputs]


def _of(dtype: d.DType) -> Callable[..., TensorType]:
    return lambda *shape: TensorType(dtype, shape)


f32, u8, i8, i32, i64 = map(_of, (d.f32, d.u8, d.i8, d.i32, d.i64))


def _conv(kernel: int, channels: int, results: int, size: int, stride: int = 1) -> Probe:
    """A convolution of a square image."""
    op = convolution.Conv((stride,) * 2, (kernel // 2,) * 4, (1, 1))
    image, weight = f32(1, size, size, channels), f32(results, kernel, kernel, channels)
    # within a network, its operand has room for padding, which an input of a program has not
    repeat = 3 if channels == results and stride == 1 else 1
    return Probe(op, (image,), (weight, f32(results)), repeat)


def _depthwise(op: Callable[..., Op], x: TensorType, *constants: TensorType) -> Probe:
    repeat = 3 if x.dtype is d.f32 else 1
    return Probe(op((1, 1), (1,) * 4, (1, 1), x.shape[-1]), (x,), constants, repeat)


def _bytes_conv(kernel: int, size: int) -> Probe:
    """A convolution of bytes, with 128 channels."""
    op = QuantizedConv((1, 1), (kernel // 2,) * 4, (1, 1))
    return Probe(op, (u8(1, size, size, 128),), (i8(128, kernel, kernel, 128), f32(128)))


_UPSAMPLING = convolution.ConvTranspose((2, 2), (0,) * 4, (1, 1))
EMPTY_RUN = Probe(elementwise.Neg(), (f32(4),))
"""A program of one small step: what a run takes at least."""
TRANSFERS = (EMPTY_RUN, Probe(elementwise.Neg(), (f32(1 << 22),)))
"""Programs whose input and output are moved to a device and back: little, and much."""
CHAIN = Probe(Softmax(), (f32(1, 4),), repeat=_CHAIN)
"""Small steps that cannot be joined: what a step takes at least."""
BANDWIDTHS = {
    nbytes: Probe(elementwise.Add(), (f32(nbytes // 12), f32(nbytes // 12))) for nbytes in _LEVELS
}
"""Sums that read and write so many bytes."""
READING = {
    4 * n * n: Probe(linear.MatMul(), (f32(1, n),), (f32(n, n),)) for n in (256, 640, 1536, 4096)
}
"""Products of one row, which read constants of so many bytes."""
PRODUCTS = (
    Probe(linear.MatMul(), (f32(128, 384),), (f32(384, 384),)),
    Probe(linear.MatMul(), (f32(256, 768),), (f32(768, 768),)),
    Probe(linear.MatMul(), (f32(8, 64, 64), f32(8, 64, 64))),
    _conv(1, 128, 64, 28),
    _conv(1, 256, 256, 28),
    _conv(3, 64, 64, 28),
    _conv(3, 128, 128, 14),
    _conv(3, 64, 64, 28, stride=2),
    _conv(1, 64, 1, 56),
    _conv(3, 16, 8, 56),
    _depthwise(convolution.Conv, f32(1, 28, 28, 192), f32(192, 3, 3, 1), f32(192)),
    Probe(_UPSAMPLING, (f32(1, 14, 14, 64),), (f32(64, 2, 2, 64),)),
    Probe(Attention(0.125), (f32(1, 6, 128, 64),) * 3),
    Probe(Attention(0.125), (f32(1, 6, 1, 64), *(f32(1, 6, 256, 64),) * 2)),
    Probe(LSTM(), (f32(16, 1, 256),), (f32(1024, 256), f32(1024, 256))),
    Probe(GRU(), (f32(16, 1, 256),), (f32(768, 256), f32(768, 256))),
    Probe(QuantizedMatMul(), (u8(128, 384),), (i8(384, 384), f32(384))),
    Probe(QuantizedMatMul(), (u8(8, 64, 64), u8(8, 64, 64)), (f32(),)),
    _bytes_conv(1, 28),
    _bytes_conv(3, 14),
    _depthwise(QuantizedConv, u8(1, 28, 28, 192), i8(192, 3, 3, 1), f32(192)),
)
"""Ops that multiply matrices, in shapes that take the usual algorithms."""
_MANY = f32(1, 64, 64, 64)
CHEAP = Probe(elementwise.Mul(), (_MANY, _MANY), repeat=_CHAIN)
"""Many cheap ops on the same elements, which one step computes."""
ELEMENTS = (
    Probe(elementwise.Add(), (_MANY, _MANY)),
    Probe(elementwise.Mul(), (_MANY, _MANY)),
    Probe(elementwise.Div(), (_MANY, _MANY)),
    Probe(activation.Relu(), (_MANY,)),
    Probe(activation.Clip(0.0, 6.0), (_MANY,)),
    Probe(activation.LeakyRelu(0.1), (_MANY,)),
    Probe(activation.HardSwish(), (_MANY,)),
    Probe(conversion.Cast(d.i32), (_MANY,)),
    Probe(activation.Sigmoid(), (_MANY,)),
    Probe(activation.Swish(), (_MANY,)),
    Probe(activation.Gelu(), (_MANY,)),
    Probe(functions.Exp(), (_MANY,)),
    Probe(functions.Erf(), (_MANY,)),
    Probe(functions.Tanh(), (_MANY,)),
    Probe(functions.Sqrt(), (_MANY,)),
    Probe(quantization.QuantizeLinear(dtype=d.u8), (_MANY,), (f32(), u8())),
    Probe(quantization.DequantizeLinear(dtype=d.f32), (u8(1, 64, 64, 64),), (f32(), u8())),
    Probe(Softmax(), (f32(2048, 128),)),
    Probe(normalization.LayerNorm(), (f32(680, 384),), (f32(384), f32(384))),
    Probe(reduction.ReduceMean((1, 2), True), (_MANY,)),
    Probe(reduction.ReduceSum((3,), True), (_MANY,)),
    Probe(reduction.ReduceMax((3,), True), (_MANY,)),
    Probe(pooling.MaxPool((2, 2), (2, 2), (0,) * 4, (1, 1)), (_MANY,)),
    Probe(pooling.AvgPool((3, 3), (1, 1), (1,) * 4, (1, 1)), (_MANY,)),
    Probe(image.Resize((1, 128, 128, 32), (1.0, 2.0, 2.0, 1.0)), (f32(1, 64, 64, 32),)),
    Probe(movement.Transpose((0, 3, 1, 2)), (_MANY,)),
    Probe(indexing.Gather(), (f32(4096, 64), i64(4096))),
)
"""Ops whose time is that of their elements."""
PROBES = (
    *(EMPTY_RUN, CHAIN, CHEAP),
    *BANDWIDTHS.values(),
    *READING.values(),
    *PRODUCTS,
    *ELEMENTS,
)
"""All of them, the most telling first."""
