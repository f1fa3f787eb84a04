"""Values of sessions: arrays, and sequences of them, in the memory of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.onnxruntime.elements import element_text, element_type_of
from afterglow.onnxruntime.errors import InvalidArgument
from afterglow.runtime.foreign_arrays import array_of
from afterglow.types import Array, DType
from afterglow.types.onnx_elements import ONNX_OF_DTYPE


class OrtDevice:
    """A device that values are on: the CPU."""

    def __init__(self, name: str = "cpu", number: int = 0) -> None:
        check_on_cpu(name)
        self._number = number

    @staticmethod
    def make(ort_device_name: str, device_id: int) -> OrtDevice:
        """A device by its name."""
        return OrtDevice(ort_device_name, device_id)

    def device_type(self) -> str:
        """What it is."""
        return "cpu"

    def device_id(self) -> int:
        """Which of its kind it is."""
        return self._number


def check_on_cpu(device_type: str) -> None:
    """Refuse memory of other devices."""
    if device_type.lower() not in ("cpu", "cpu_pinned"):
        raise InvalidArgument(
            f"there is no device {device_type!r}: values are in the memory of the host",
            help="write device_type='cpu'",
        )


class OrtValue:
    """An input or output of a session: an array, which it shares, or a list or dictionary."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value in the memory of an array."""
        check_on_cpu(device_type)
        return cls(np.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, onnx_element_type: int) -> OrtValue:
        """A value of an element type that NumPy may lack, in the memory of an array of bytes."""
        return cls(np.asarray(data).view(element_type_of(onnx_element_type).numpy))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value of some shape, with anything in it."""
        check_on_cpu(device_type)
        return cls(np.empty(tuple(shape), element_type_of(element_type).numpy))

    @classmethod
    def from_dlpack(cls, data: Any) -> OrtValue:
        """A value in the memory of another library's array."""
        return cls(data if isinstance(data, np.ndarray) else array_of(data))

    def numpy(self) -> Any:
        """The array, in the same memory."""
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._value, dtype)

    def __dlpack__(self, **about: Any) -> Any:
        return self._array.__dlpack__(**about)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    @property
    def _array(self) -> Array:
        if not isinstance(self._value, np.ndarray):
            raise InvalidArgument(f"the value is a {type(self._value).__name__}, not a tensor")
        return self._value

    def shape(self) -> list[int]:
        """The shape of the tensor."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Its type, such as `tensor(float)`."""
        if self.is_tensor_sequence():
            inner = OrtValue(self._value[0]).data_type() if self._value else "undefined"
            return f"seq({inner})"
        return f"tensor({element_text(DType.of(self._array.dtype))})"

    def element_type(self) -> int:
        """ONNX's number of its element type."""
        return ONNX_OF_DTYPE[DType.of(self._array.dtype)]

    def data_ptr(self) -> int:
        """The address of its elements."""
        return self._array.ctypes.data

    def tensor_size_in_bytes(self) -> int:
        """Bytes that its elements take."""
        return self._array.nbytes

    def device_name(self) -> str:
        """Where it is."""
        return "cpu"

    def has_value(self) -> bool:
        """Whether it is not an empty optional."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Whether it is sparse: never."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence."""
        return isinstance(self._value, list)

    def update_inplace(self, data: Array) -> None:
        """Copy an array of the same type and shape into its memory."""
        array, data = self._array, np.asarray(data)
        if array.dtype != data.dtype or array.shape != data.shape:
            raise InvalidArgument(
                f"a value of {array.dtype} and shape {array.shape} cannot be updated by "
                f"{data.dtype} of shape {data.shape}"
            )
        array[...] = data
