"""Signal processing: the discrete Fourier transform."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Pad, Reshape, Slice, Transpose, slice_axis
from afterglow.ops.rules import exact_extent, normal_axis, require, require_float
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged, undecided

LONGEST_PRODUCT = 1024
"""Transforms up to this length become one matrix product; longer ones are split where they can."""
LONGEST = 1 << 24
"""The longest transform: its factors are constants of the program."""


@op("dft")
class Dft(Op):
    """The discrete Fourier transform along an axis; the last axis holds real and imaginary part.

    The signal is cut or filled with zeros to `length`. `inverse` divides by the length. With
    `onesided`, a real signal gives the first half of its spectrum, and inversely.
    """

    axis: int
    length: int
    inverse: bool = False
    onesided: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """The axis gets the length of the signal or spectrum, the last one its parts."""
        require_float(x=x)
        if is_ranged(self.length):
            raise undecided(f"a transform of {self.length} elements", self.length)
        axis = normal_axis(self.axis, x)
        require(
            axis < x.rank - 1 and x.shape[-1] in (1, 2),
            f"the last axis of x must hold real and imaginary parts, got {x} and axis {axis}",
        )
        require(self.length > 0, f"length must be positive, got {self.length}")
        require(self.length <= LONGEST, f"length must be at most {LONGEST:,}, got {self.length:,}")
        parts = 2 if self.inverse and self.onesided else 1
        require(
            not self.onesided or x.shape[-1] == parts,
            f"x must hold {parts} parts where one side is asked for, got {x}",
        )
        shape = [*x.shape]
        shape[axis] = self.length // 2 + 1 if self.onesided and not self.inverse else self.length
        shape[-1] = 1 if self.onesided and self.inverse else 2
        return TensorType(x.dtype, tuple(shape))

    def evaluate(self, x: Array) -> Array:
        """NumPy's transforms."""
        signal = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
        axis = self.axis % x.ndim
        if self.inverse and self.onesided:
            return np.fft.irfft(signal, self.length, axis)[..., np.newaxis]
        if self.inverse:
            result = np.fft.ifft(signal, self.length, axis)
        elif self.onesided:
            result = np.fft.rfft(signal, self.length, axis)
        else:
            result = np.fft.fft(signal, self.length, axis)
        return np.stack([result.real, result.imag], -1)

    def lower(self, b: Builder, x: Value) -> Value:
        """A product with a constant matrix; if that is too large, two shorter transforms.

        Lengths that are prime become longer ones that are not.
        """
        if x.type.dtype.is_narrow_float:
            wide = b.emit(self, b.emit(Cast(f32), x))
            return b.emit(Cast(x.type.dtype), wide)
        if self.length <= LONGEST_PRODUCT:
            return self._product(b, x)
        return self._chirped(b, x) if _factor(self.length) == 1 else self._split(b, x)

    def permuted(self, perm: tuple[int, ...]) -> Dft | None:
        """Along the same axis at its new place, if the last one stays."""
        if perm[-1] != len(perm) - 1:
            return None
        return Dft(perm.index(self.axis % len(perm)), self.length, self.inverse, self.onesided)

    def _product(self, b: Builder, x: Value) -> Value:
        """Each pair of element and part is a column: the transform is linear in them."""
        axis, rank = self.axis % x.type.rank, x.type.rank
        used = self.length // 2 + 1 if self.inverse and self.onesided else self.length
        x = _fitted(b, x, axis, min(used, x.type.shape[axis]))
        perm = (*(a for a in range(rank - 1) if a != axis), axis, rank - 1)
        moved = b.emit(Transpose(perm), x)
        *rest, extent, parts = moved.type.shape
        exact_extent(extent, "the matrix of a transform")
        basis = np.eye(extent * parts).reshape(extent * parts, extent, parts)
        images = Dft(1, self.length, self.inverse, self.onesided).evaluate(basis)
        coefficients = images.reshape(extent * parts, math.prod(images.shape[1:]))
        matrix = b.constant(coefficients.astype(x.type.dtype.numpy), name="dft")
        rows = b.emit(Reshape((math.prod(rest), extent * parts)), moved)
        product = b.emit(Reshape((*rest, *images.shape[1:])), b.emit(MatMul(), rows, matrix))
        back = tuple(perm.index(a) for a in range(rank))
        return b.emit(Transpose(back), product)

    def _split(self, b: Builder, x: Value) -> Value:
        """Cooley and Tukey's step: n = n1 q + n2 and k = k1 + p k2, where p q is the length."""
        x, axis = self._whole(b, x), self.axis % x.type.rank
        shape, p = x.type.shape, _factor(self.length)
        q = self.length // p
        grid = b.emit(Reshape((*shape[:axis], p, q, *shape[axis + 1 :])), x)
        inner = b.emit(Dft(axis, p, self.inverse), grid)
        turned = _times(b, inner, axis, self._roots(np.outer(np.arange(p), np.arange(q)), p * q))
        outer = b.emit(Dft(axis + 1, q, self.inverse), turned)
        perm = [*range(len(shape) + 1)]
        perm[axis : axis + 2] = axis + 1, axis
        return self._kept(b, b.emit(Reshape(shape), b.emit(Transpose(tuple(perm)), outer)))

    def _chirped(self, b: Builder, x: Value) -> Value:
        """Bluestein's step: n k = (n^2 + k^2 - (k - n)^2) / 2 makes it a convolution."""
        x, axis, length = self._whole(b, x), self.axis % x.type.rank, self.length
        size = 1 << (2 * length - 2).bit_length()
        chirp = self._roots(np.arange(length) ** 2, 2 * length)
        kernel = np.zeros(size, np.complex128)
        kernel[:length] = chirp.conj()
        kernel[size - length + 1 :] = chirp[:0:-1].conj()
        wide = _fitted(b, _times(b, x, axis, chirp), axis, size)
        product = _times(b, b.emit(Dft(axis, size), wide), axis, np.fft.fft(kernel))
        convolved = _fitted(b, b.emit(Dft(axis, size, inverse=True), product), axis, length)
        return self._kept(b, _times(b, convolved, axis, chirp / length if self.inverse else chirp))

    def _roots(self, turns: Array, order: int) -> Array:
        """exp(-2 pi i turns / order), or its conjugate for the inverse."""
        angles = 2 * np.pi * (turns % order) / order
        return np.exp(1j * angles if self.inverse else -1j * angles)

    def _whole(self, b: Builder, x: Value) -> Value:
        """x as the complex signal, or spectrum, of the transform's length."""
        axis = self.axis % x.type.rank
        if self.inverse and self.onesided:
            half = self.length // 2 + 1
            x = _whole_spectrum(b, _fitted(b, x, axis, half), axis, self.length)
        return _fitted(b, _fitted(b, x, axis, self.length), x.type.rank - 1, 2)

    def _kept(self, b: Builder, result: Value) -> Value:
        """What is asked for of a complex transform."""
        if not self.onesided:
            return result
        if self.inverse:
            return b.emit(slice_axis(result.type, result.type.rank - 1, 0, 1), result)
        axis, half = self.axis % result.type.rank, self.length // 2 + 1
        return b.emit(slice_axis(result.type, axis, 0, half), result)


def _factor(length: int) -> int:
    """The largest divisor that is not above the square root."""
    return next(p for p in range(math.isqrt(length), 0, -1) if length % p == 0)


def _fitted(b: Builder, x: Value, axis: int, extent: int) -> Value:
    """Cut, or fill with zeros, to an extent along an axis."""
    missing = extent - x.type.shape[axis]
    if missing == 0:
        return x
    if missing < 0:
        return b.emit(slice_axis(x.type, axis, 0, extent), x)
    after = [0] * x.type.rank
    after[axis] = missing
    return b.emit(Pad((0,) * x.type.rank, tuple(after)), x)


def _whole_spectrum(b: Builder, x: Value, axis: int, length: int) -> Value:
    """Append the other half of a real signal's spectrum: the conjugates in reverse order."""
    count = (length - 1) // 2
    mirrored = b.emit(slice_axis(x.type, axis, count, count, -1), x)
    signs = b.constant(np.array([1, -1], x.type.dtype.numpy), name="conjugate")
    return b.emit(Concat(axis), x, b.emit(Mul(), mirrored, signs))


def _times(b: Builder, x: Value, axis: int, factors: Array) -> Value:
    """x times complex factors that run along an axis and those behind it."""
    rank, shape = x.type.rank, factors.shape
    between = [1] * (rank - axis - len(shape) - 1)
    pairs = (
        np.stack([factors.real] * 2, -1),
        np.stack([-factors.imag, factors.imag], -1),
    )
    same, cross = (
        b.constant(pair.reshape(*shape, *between, 2).astype(x.type.dtype.numpy), name="factors")
        for pair in pairs
    )
    steps = (*[1] * (rank - 1), -1)
    swapped = b.emit(Slice((*[0] * (rank - 1), 1), x.type.shape, steps), x)
    return b.emit(Add(), b.emit(Mul(), x, same), b.emit(Mul(), swapped, cross))
