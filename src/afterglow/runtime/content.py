"""Values as hashable data: equal for equal values, and storable in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from afterglow.support.lazy_dataclass import dataclass

Content: TypeAlias = "ArrayContent | tuple[Content, ...] | str"
"""The content of an array, of a sequence, or of anything else as text."""


@dataclass(frozen=True)
class ArrayContent:
    """Element type, shape, and elements: their bytes, or text for elements that are not numbers."""

    dtype: str
    shape: tuple[int, ...]
    elements: bytes | str

    def __str__(self) -> str:
        if isinstance(self.elements, str):
            return self.elements
        return str(np.frombuffer(self.elements, self.dtype).reshape(self.shape).tolist())


def content_of(value: Any) -> Content:
    """The content of an array, of a list of them, or of anything else."""
    if isinstance(value, (list, tuple)):
        return tuple(map(content_of, value))
    if not isinstance(value, np.ndarray):
        return repr(value)
    elements = repr(value.tolist()) if value.dtype == object else value.tobytes()
    return ArrayContent(str(value.dtype), value.shape, elements)


def describe_content(content: Content) -> Any:
    """The same, as what JSON can hold."""
    match content:
        case ArrayContent(dtype, shape, bytes() as elements):
            return {"dtype": dtype, "shape": shape, "hex": elements.hex()}
        case ArrayContent(dtype, shape, str() as elements):
            return {"dtype": dtype, "shape": shape, "text": elements}
        case tuple():
            return [describe_content(part) for part in content]
    return content


def restore_content(data: Any) -> Content:
    """The content that was described so."""
    match data:
        case list():
            return tuple(map(restore_content, data))
        case Mapping():
            elements = bytes.fromhex(data["hex"]) if "hex" in data else data["text"]
            return ArrayContent(data["dtype"], tuple(data["shape"]), elements)
    return str(data)
