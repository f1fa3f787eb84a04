"""ATen's Fourier transforms, and the few ops on complex numbers that go with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import ComplexParts
from afterglow.frontends.definition.model import AttributeDef, AttributeKind
from afterglow.frontends.torch.node import RESULTS, TorchNode
from afterglow.frontends.torch.registry import COMPLEX, TORCH, aten
from afterglow.graph import Value
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import Add, Mul, Neg, Sub
from afterglow.ops.functions import Sqrt
from afterglow.ops.movement import Concat, Expand, Pad, Reshape, Transpose, slice_axis
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import broadcast_shape
from afterglow.ops.signal import Dft
from afterglow.support.errors import ModelError
from afterglow.types.dtype import Kind, f32, f64

_OF_COMPLEX = f"{COMPLEX}aten"
_NORMS = (0.0, -0.5, -1.0)
"""The power of the number of elements that a transform is multiplied with, by its number."""


def _parts(n: TorchNode, name: str) -> Value:
    """An argument with an axis of parts behind: two if it is complex, one if it is not."""
    text = n.attribute(name)
    if isinstance(text, str) and text.startswith("%"):
        operand = n.operands[int(text[1:])]
        if isinstance(operand, ComplexParts):
            return operand.parts
    if not n.is_value(name):
        return n.constant(np.array([n.scalar(name)], np.float32))
    x = n.value(name)
    if x.type.dtype.kind is Kind.COMPLEX:  # a constant, as inputs are not
        numbers = n.value_of(x)
        return n.constant(np.stack([numbers.real, numbers.imag], -1))
    return n.emit(Reshape((*x.type.shape, 1)), x)


def _axes(n: TorchNode, x: Value) -> list[int]:
    """The axes of a call, of x with its axis of parts."""
    rank = x.type.rank - 1
    return [axis % rank for axis in n.sizes("dim")]


def _scaled(n: TorchNode, x: Value, extents: Sequence[int], more: float = 0.0) -> Value:
    """x times the power of the number of elements that the call asks for, and `more`."""
    number = n.size("normalization")
    if number not in range(len(_NORMS)):
        raise ModelError(f"there is no normalization {number}")
    power = _NORMS[number] + more
    if power == 0:
        return x
    return Arithmetic(n.builder, x).mul(x, float(math.prod(extents)) ** power)


def _along(n: TorchNode, x: Value, axes: Sequence[int], *, inverse: bool) -> Value:
    for axis in axes:
        x = n.emit(Dft(axis, x.type.shape[axis], inverse), x)
    return x


@aten("_fft_r2c")
def real_to_complex(n: TorchNode) -> ComplexParts:
    """The last axis named is the one of which half is enough."""
    x = _parts(n, "self")
    axes = _axes(n, x)
    extents = [x.type.shape[axis] for axis in axes]
    *others, last = axes
    y = n.emit(Dft(last, x.type.shape[last], onesided=n.flag("onesided")), x)
    y = _along(n, y, others, inverse=False)
    return ComplexParts(_scaled(n, y, extents))


@aten("_fft_c2c")
def complex_to_complex(n: TorchNode) -> ComplexParts:
    """Our inverse divides by the number of elements, PyTorch's does not."""
    x = _parts(n, "self")
    axes, inverse = _axes(n, x), not n.flag("forward")
    y = _along(n, x, axes, inverse=inverse)
    extents = [x.type.shape[axis] for axis in axes]
    return ComplexParts(_scaled(n, y, extents, 1.0 if inverse else 0.0))


@aten("_fft_c2r")
def complex_to_real(n: TorchNode) -> Value:
    """From half of a spectrum along the last axis named."""
    x, length = _parts(n, "self"), n.size("last_dim_size")
    *others, last = _axes(n, x)
    extents = [*(x.type.shape[axis] for axis in others), length]
    y = _along(n, x, others, inverse=True)
    y = n.emit(Dft(last, length, inverse=True, onesided=True), y)
    return n.emit(Reshape(y.type.shape[:-1]), _scaled(n, y, extents, 1.0))


@aten("view_as_complex", "view_as_complex_copy")
def view_as_complex(n: TorchNode) -> ComplexParts:
    """Parts are along the last axis."""
    return ComplexParts(n.value("self"))


@aten("view_as_real", "view_as_real_copy")
def view_as_real(n: TorchNode) -> Value:
    """Parts along the last axis."""
    return _parts(n, "self")


@aten("complex")
def from_parts(n: TorchNode) -> ComplexParts:
    """A real and an imaginary part, broadcast."""
    real, imag = n.value("real"), n.value("imag")
    shape = (*broadcast_shape(real=real.type, imag=imag.type), 1)
    parts = (n.emit(Expand(shape), _parts(n, name)) for name in ("real", "imag"))
    return ComplexParts(n.emit(Concat(len(shape) - 1), *parts))


def _part(n: TorchNode, x: Value, index: int) -> Value:
    return n.emit(slice_axis(x.type, x.type.rank - 1, index, 1), x)


@aten("abs", namespace=_OF_COMPLEX)
def magnitude(n: TorchNode) -> Value:
    """The root of the sum of squares."""
    x = _parts(n, "self")
    square = n.emit(ReduceSum((x.type.rank - 1,), False), n.emit(Mul(), x, x))
    return n.emit(Sqrt(), square)


@aten("mul.Tensor", namespace=_OF_COMPLEX)
def product(n: TorchNode) -> ComplexParts:
    """Of two complex numbers, or of a real and a complex one."""
    x, y = _parts(n, "self"), _parts(n, "other")
    if 1 in (x.type.shape[-1], y.type.shape[-1]):
        return ComplexParts(n.emit(Mul(), x, y))
    (a, b), (c, d) = ([_part(n, v, index) for index in (0, 1)] for v in (x, y))
    real = n.emit(Sub(), n.emit(Mul(), a, c), n.emit(Mul(), b, d))
    imaginary = n.emit(Add(), n.emit(Mul(), a, d), n.emit(Mul(), b, c))
    return ComplexParts(n.emit(Concat(real.type.rank - 1), real, imaginary))


@aten("_conj", "_conj_physical", "conj_physical", namespace=_OF_COMPLEX)
def conjugate(n: TorchNode) -> ComplexParts:
    """The imaginary part negated."""
    x = _parts(n, "self")
    parts = _part(n, x, 0), n.emit(Neg(), _part(n, x, 1))
    return ComplexParts(n.emit(Concat(x.type.rank - 1), *parts))


@aten("permute", "transpose.int", namespace=_OF_COMPLEX)
def moved(n: TorchNode) -> ComplexParts:
    """Parts stay last."""
    x = _parts(n, "self")
    rank = x.type.rank - 1
    perm = list(range(rank))
    if n.proto.op_type.startswith("permute"):
        perm = [axis % rank for axis in n.sizes("dims")]
    else:
        first, second = n.size("dim0") % rank, n.size("dim1") % rank
        perm[first], perm[second] = second, first
    return ComplexParts(n.emit(Transpose((*perm, rank)), x))


@aten("squeeze.dim", "squeeze.dims", "unsqueeze", "view", "reshape", namespace=_OF_COMPLEX)
def reshaped(n: TorchNode) -> ComplexParts:
    """Parts stay last."""
    x = _parts(n, "self")
    shape = _new_shape(n, x.type.shape[:-1])
    return ComplexParts(n.emit(Reshape((*shape, 2)), x))


def _new_shape(n: TorchNode, shape: tuple[int, ...]) -> Sequence[int]:
    if n.proto.op_type.startswith("squeeze"):
        dropped = {axis % len(shape) for axis in n.sizes("dim")}
        return [e for axis, e in enumerate(shape) if axis not in dropped or e != 1]
    if n.proto.op_type.startswith("unsqueeze"):
        axis = n.size("dim") % (len(shape) + 1)
        return (*shape[:axis], 1, *shape[axis:])
    sizes = n.sizes("size" if n.has("size") else "shape")
    known = math.prod(size for size in sizes if size != -1)
    return [math.prod(shape) // known if size == -1 else size for size in sizes]


@aten("_to_copy", "clone", "alias", namespace=_OF_COMPLEX)
def converted(n: TorchNode) -> ComplexParts:
    """Real numbers with imaginary parts of 0; complex ones as they are."""
    x = _parts(n, "self")
    if not (x.type.dtype.is_float and n.result_type().name in ("c64", "c128")):
        raise n.fail("this conversion of complex numbers is not supported")
    x = as_dtype(n, x, f64 if n.result_type().name == "c128" else f32)
    if x.type.shape[-1] == 1:
        none = (0,) * (x.type.rank - 1)
        x = n.emit(Pad((*none, 0), (*none, 1)), x)
    return ComplexParts(x)


@aten("slice.Tensor", "select.int", "constant_pad_nd", namespace=_OF_COMPLEX)
def cut(n: TorchNode) -> ComplexParts:
    """As of real numbers, with one axis more behind."""
    x = _parts(n, "self")
    changed = dict(n.attributes)
    if n.has("pad"):
        changed["pad"] = AttributeDef(AttributeKind.INTS, (0, 0, *n.sizes("pad")))
    else:
        changed["dim"] = AttributeDef(AttributeKind.INT, n.size("dim") % (x.type.rank - 1))
    changed[RESULTS] = AttributeDef(AttributeKind.STRINGS, (x.type.dtype.name,))
    real = TORCH.find(n.proto.domain, n.proto.op_type, 1)
    assert real is not None
    operands = (x, *n.operands[1:])
    found = real(TorchNode(n.graph, n.proto, changed, operands, n.opset, n.builder))
    assert isinstance(found, Value)
    return ComplexParts(found)
