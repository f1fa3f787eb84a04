"""What Triton's operations do to NumPy arrays: Triton's interpreter, where it is not exact enough.

Its own rounds bf16 wrongly, lets NaN pass where the device does not, has no libdevice, and trusts
every address.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import InterpreterBuilder, InterpreterOptions, TensorHandle

from afterglow.backends.cuda.emulator.functions import compute
from afterglow.backends.cuda.emulator.memory import AccessError, Memory
from afterglow.types import Array

_NARROW = {
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
}
"""The float types that NumPy lacks: the interpreter has them as integers of their bits."""
_WAIT, _RELEASE = "griddepcontrol.wait", "griddepcontrol.launch_dependents"
"""Assembler that orders kernels: they run one after the other here, so that it only is checked."""
_LOADS = "loads"
_TF32 = np.uint32(0xFFFFE000)
"""The bits of an f32 that tensor cores take for tf32."""
_SHORTEST_SUM = {8: 32}
"""The products that a sum of `tl.dot` has at least, by the bits of its operands; else 16."""
_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def numbers_of(handle: Any) -> Array:
    """The numbers that a value holds, as a type that NumPy computes with."""
    narrow = _NARROW.get(handle.dtype.scalar)
    data: Array = handle.data
    return data if narrow is None else data.view(narrow).astype(np.float32)


def handle_of(numbers: Array, dtype: Any) -> Any:
    """A value of a Triton type that holds numbers, rounded to the type."""
    scalar = dtype.scalar
    narrow = _NARROW.get(scalar)
    if narrow is not None:
        return TensorHandle(numbers.astype(narrow).view(f"u{narrow.itemsize}"), scalar)
    return TensorHandle(numbers.astype(numpy_type(scalar), copy=False), scalar)


def numpy_type(dtype: Any) -> np.dtype[Any]:
    """The NumPy type of what the interpreter holds a Triton type in."""
    scalar = dtype.scalar
    return np.dtype(np.uint64) if scalar.is_ptr() else _numpy_scalar(scalar)


@cache
def _numpy_scalar(scalar: Any) -> np.dtype[Any]:
    if scalar in _NARROW:
        return np.dtype(f"u{_NARROW[scalar].itemsize}")
    if scalar == tl.int1:
        return np.dtype(bool)
    kind = "f" if scalar.is_floating() else "i" if scalar.is_int_signed() else "u"
    return np.dtype(f"{kind}{scalar.primitive_bitwidth // 8}")


class _Outcome:
    """The results of assembler."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def get_result(self, index: int) -> Any:
        return self._handles[index]


class _Semantic(TritonSemantic):  # type: ignore[misc]  # Triton has no types
    """The rules of types, with a short way for operands of the same type."""

    def binary_op_type_checking_impl(self, lhs: Any, rhs: Any, *options: Any, **named: Any) -> Any:
        """Two operands as the same type and shape."""
        if not options and not named and _are_alike(lhs, rhs):
            return lhs, rhs
        return super().binary_op_type_checking_impl(lhs, rhs, *options, **named)


def _are_alike(lhs: Any, rhs: Any) -> bool:
    """Whether two operands are blocks of the same shape and of numbers of one type."""
    if not isinstance(lhs, tl.tensor) or not isinstance(rhs, tl.tensor):
        return False
    same_shape = lhs.type.is_block() and rhs.type.is_block() and lhs.type.shape is rhs.type.shape
    return same_shape and lhs.dtype == rhs.dtype and not lhs.dtype.is_ptr()


class Builder(InterpreterBuilder):  # type: ignore[misc]  # Triton has no types
    """Computes while it is told what to build."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory
        self.options = InterpreterOptions(sanitize_overflow=False)
        self.codegen_fns["min_dot_size"] = lambda lhs, rhs: (
            1,
            1,
            _SHORTEST_SUM.get(lhs.scalar.primitive_bitwidth, 16),
        )
        self.grid_dim = self.grid_idx = (0, 0, 0)
        self.semantic = _Semantic(self)
        self.has_waited = True
        self._is_dependent = False
        self._may_access = True

    def begin(self, grid: tuple[int, int, int], *, has_waited: bool) -> None:
        """Begin a grid, whose programs must wait for the kernel before unless they have."""
        self.grid_dim = grid
        self.has_waited = has_waited
        self._is_dependent = not has_waited

    def begin_program(self, place: tuple[int, int, int]) -> None:
        """Begin the program of a place in the grid."""
        self.grid_idx = place
        self._may_access = not self._is_dependent

    def create_load(self, ptr: Any, cache: Any, eviction: Any, is_volatile: Any) -> Any:
        """Elements at addresses."""
        return self.create_masked_load(ptr, _all_of(ptr), None, cache, eviction, is_volatile)

    def create_store(self, ptr: Any, val: Any, cache: Any, eviction: Any) -> Any:
        """Write elements at addresses."""
        return self.create_masked_store(ptr, val, _all_of(ptr), cache, eviction)

    def create_masked_load(
        self, ptrs: Any, mask: Any, other: Any, cache: Any, eviction: Any, is_volatile: Any
    ) -> Any:
        """Elements at those addresses that are in a mask."""
        self._check(_LOADS, ptrs, mask)
        return super().create_masked_load(ptrs, mask, other, cache, eviction, is_volatile)

    def create_masked_store(
        self, ptrs: Any, value: Any, mask: Any, cache: Any, eviction: Any
    ) -> Any:
        """Write elements at those addresses that are in a mask."""
        self._check("stores", ptrs, mask)
        return super().create_masked_store(ptrs, value, mask, cache, eviction)

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        """Exchange what equals a value."""
        self._check("compares and swaps", ptr, _all_of(ptr))
        return super().create_atomic_cas(ptr, cmp, val, sem, scope)

    def create_atomic_rmw(
        self, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any
    ) -> Any:
        """Combine what is in memory with values."""
        self._check("updates", ptr, mask)
        return super().create_atomic_rmw(op, ptr, val, mask, sem, scope)

    def _check(self, does: str, ptrs: Any, mask: Any) -> None:
        """Refuse accesses to nothing, and to what the kernel before may be writing still."""
        size = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
        written = self.memory.written
        try:
            blocks = self.memory.check(ptrs.data, mask.data, size)
            if not self._may_access and (does != _LOADS or not written.isdisjoint(blocks)):
                raise AccessError(f"{size} bytes before it waits for the kernel before")
        except AccessError as error:
            raise AccessError(f"program {self.grid_idx} {does} {error}") from None
        if does != _LOADS:
            written.update(blocks)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        """The numbers as another type."""
        if dst_type.scalar.is_int() and src.dtype.scalar.is_floating():
            return handle_of(_whole(numbers_of(src), numpy_type(dst_type)), dst_type)
        return handle_of(numbers_of(src), dst_type)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        """The numbers rounded to another type, to the nearest even."""
        return handle_of(numbers_of(src), dst_type)

    def create_bitcast(self, src: Any, dst_type: Any) -> Any:
        """The same bits as another type."""
        data = np.ascontiguousarray(src.data)
        return TensorHandle(data.view(numpy_type(dst_type)), dst_type.scalar)

    def binary_op(self, lhs: Any, rhs: Any, op: Callable[..., Array]) -> Any:
        """A function of two operands, of the type of the first."""
        return handle_of(op(numbers_of(lhs), numbers_of(rhs)), lhs.dtype)

    def unary_op(self, arg: Any, op: Callable[..., Array]) -> Any:
        """A function of one operand."""
        return handle_of(op(numbers_of(arg)), arg.dtype)

    def ternary_op(self, a: Any, b: Any, c: Any, op: Callable[..., Array]) -> Any:
        """A function of three operands, of the type of the last."""
        return handle_of(op(numbers_of(a), numbers_of(b), numbers_of(c)), c.dtype)

    def create_select(self, cond: Any, lhs: Any, rhs: Any) -> Any:
        """Elements of one or the other."""
        return TensorHandle(np.where(cond.data, lhs.data, rhs.data), rhs.dtype.scalar)

    def create_minnumf(self, lhs: Any, rhs: Any) -> Any:
        """The smaller one, or the one that is a number."""
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> Any:
        """The larger one, or the one that is a number."""
        return self.binary_op(lhs, rhs, np.fmax)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, rounded once but for rare ties."""
        a, b, c = (numbers_of(part).astype(np.float64) for part in (x, y, z))
        return handle_of(a * b + c, z.dtype)

    def create_ashr(self, lhs: Any, rhs: Any) -> Any:
        """A shift that keeps the sign."""
        signed = np.dtype(f"i{lhs.data.itemsize}")
        shifted = lhs.data.view(signed) >> rhs.data.astype(signed)
        return TensorHandle(shifted.view(lhs.data.dtype), lhs.dtype.scalar)

    def create_erf(self, arg: Any) -> Any:
        """The error function."""
        return handle_of(compute("__nv_erf", [numbers_of(arg)], arg.data.dtype), arg.dtype)

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, *_: Any) -> Any:
        """A product of matrices, added to d."""
        if d.dtype.scalar.is_int():
            product = np.matmul(a.data.astype(np.float64), b.data.astype(np.float64))
            return TensorHandle(product.astype(d.data.dtype) + d.data, d.dtype.scalar)
        is_tf32 = str(input_precision).endswith("TF32")
        lhs, rhs = (_for_tensor_cores(numbers_of(part), is_tf32=is_tf32) for part in (a, b))
        return handle_of(np.matmul(lhs, rhs) + d.data, d.dtype)

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, operands: Any, type: Any, is_pure: bool
    ) -> Any:
        """A function of libdevice."""
        numbers = [numbers_of(operand) for operand in operands]
        return handle_of(compute(symbol, numbers, numpy_type(type)), type)

    def create_inline_asm(
        self, assembler: str, constraints: str, operands: Any, types: Any, *_: Any
    ) -> _Outcome:
        """Nothing but a note that the program waited."""
        if assembler.startswith(_WAIT):
            self.has_waited = self._may_access = True
        elif not assembler.startswith(_RELEASE):
            raise NotImplementedError(f"the emulator runs no assembler such as {assembler!r}")
        return _Outcome([TensorHandle(np.zeros(1, np.int32), tl.int32) for _ in types])


def _all_of(pointers: Any) -> Any:
    return TensorHandle(np.ones_like(pointers.data, dtype=bool), tl.int1)


def _for_tensor_cores(numbers: Array, *, is_tf32: bool) -> Array:
    """Operands of a product as f32, of which tensor cores see less with tf32."""
    wide = np.ascontiguousarray(numbers, np.float64 if numbers.dtype == np.float64 else np.float32)
    if is_tf32 and wide.dtype == np.float32:
        return (wide.view(np.uint32) & _TF32).view(np.float32)
    return wide


def _whole(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers, as the device converts them: saturated at 32 or 64 bits, NaN as 0."""
    bits = max(32, 8 * dtype.itemsize)
    wide = np.dtype(f"{dtype.kind if dtype.kind == 'u' else 'i'}{bits // 8}")
    limits = np.iinfo(wide)
    cut = np.trunc(np.nan_to_num(numbers.astype(np.float64), nan=0.0))
    inside = np.clip(cut, float(limits.min), np.nextafter(float(limits.max) + 1, 0))
    return np.where(cut >= float(limits.max), limits.max, inside.astype(wide)).astype(dtype)


def _comparison(compare: Callable[..., Array]) -> Callable[[Builder, Any, Any], Any]:
    def run(self: Builder, lhs: Any, rhs: Any) -> Any:
        return TensorHandle(compare(numbers_of(lhs), numbers_of(rhs)), tl.int1)

    return run


for _name, _compare in _COMPARISONS.items():
    for _kind in ("icmpS", "icmpU", "icmp", "fcmpO", "fcmpU"):
        setattr(Builder, f"create_{_kind}{_name}", _comparison(_compare))
