"""The inputs and outputs of a served model: what requests must give, and what clients are told."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from afterglow.runtime.signature import TensorInfo
from afterglow.serve.datatypes import datatype_of
from afterglow.serve.errors import invalid
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import Kind

_ANY = -1
"""How the protocol shows an extent that is not fixed."""


@dataclass(frozen=True)
class CheckedInput:
    """An input, and what a request must give for it."""

    info: TensorInfo
    dtype: Any
    fixed: tuple[tuple[int, int], ...] = field(default=())
    """The axes whose extent is fixed, with it."""

    @staticmethod
    def of(info: TensorInfo) -> CheckedInput:
        """The input that a model describes."""
        assert info.dtype is not None
        exact = ((a, e) for a, e in enumerate(info.shape or ()) if isinstance(e, int))
        return CheckedInput(info, info.dtype.numpy, tuple(exact))

    def check(self, array: Array) -> None:
        """Raise unless an array is of the datatype and shape that the input has."""
        info, shape = self.info, array.shape
        if array.dtype != self.dtype:
            found = "BYTES" if array.dtype.hasobject else str(array.dtype)
            raise invalid(f"input {info.name!r} is {datatype_of(info.dtype)}, got {found}")
        if info.shape is None:
            return
        if len(shape) != len(info.shape) or any(shape[a] != e for a, e in self.fixed):
            raise invalid(
                f"input {info.name!r} has the shape {_extents(info)}, got {list(shape)}",
                help="-1 stands for any extent",
            )


def _extents(info: TensorInfo) -> list[int]:
    return [extent if isinstance(extent, int) else _ANY for extent in info.shape or ()]


def described(info: TensorInfo) -> dict[str, Any]:
    """An input or output, as the metadata of a model has it."""
    return {"name": info.name, "datatype": datatype_of(info.dtype) or "", "shape": _extents(info)}


def configured(info: TensorInfo, is_batched: bool) -> dict[str, Any]:
    """An input or output, as the configuration of a model has it: without rows."""
    datatype = datatype_of(info.dtype) or "INVALID"
    is_text = info.dtype is not None and info.dtype.kind is Kind.STRING
    dims = _extents(info)[1:] if is_batched else _extents(info)
    return {
        "name": info.name,
        "data_type": "TYPE_STRING" if is_text else f"TYPE_{datatype}",
        "dims": dims,
    }
