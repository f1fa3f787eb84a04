"""Small GGUF files, written byte by byte: for tests that must not need another package."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from afterglow.types import Array

ALIGNMENT = 32


@dataclass(frozen=True)
class Blocks:
    """A tensor in a format of blocks, as its bytes."""

    format: int
    shape: tuple[int, ...]
    data: bytes


def gguf_bytes(metadata: Mapping[str, Any], tensors: Mapping[str, Array | Blocks]) -> bytes:
    """A file of version 3."""
    blocks = {name: _blocks(tensor) for name, tensor in tensors.items()}
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(blocks), len(metadata))]
    parts += [_text(key) + _value(value) for key, value in metadata.items()]
    offset = 0
    for name, tensor in blocks.items():
        extents = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape[::-1])
        parts.append(_text(name) + extents + struct.pack("<IQ", tensor.format, offset))
        offset += _padded(len(tensor.data))
    head = b"".join(parts)
    body = (tensor.data.ljust(_padded(len(tensor.data)), b"\0") for tensor in blocks.values())
    return b"".join((head.ljust(_padded(len(head)), b"\0"), *body))


def q8_0(array: Array) -> Blocks:
    """Elements rounded to 8 bits."""
    groups = array.reshape(-1, 32).astype(np.float32)
    scale = np.abs(groups).max(1, keepdims=True) / 127
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = np.nan_to_num(np.round(groups / scale)).astype(np.int8)
    data = np.concatenate((scale.astype("<f2").view(np.uint8), numbers.view(np.uint8)), 1)
    return Blocks(8, array.shape, data.tobytes())


def q4_0(array: Array) -> Blocks:
    """Elements rounded to 4 bits."""
    groups = array.reshape(-1, 32).astype(np.float32)
    scale = np.abs(groups).max(1, keepdims=True) / 7
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = np.nan_to_num(np.round(groups / scale)).astype(np.int8) + 8
    packed = (numbers[:, :16] | numbers[:, 16:] << 4).astype(np.uint8)
    data = np.concatenate((scale.astype("<f2").view(np.uint8), packed), 1)
    return Blocks(2, array.shape, data.tobytes())


def random_q6_k(array: Array) -> Blocks:
    """Random numbers of 6 bits with scales in two levels, for a matrix of the same shape."""
    rng = np.random.default_rng(array.size)
    blocks = rng.integers(0, 256, (array.size // 256, 208), np.uint8)
    scales = np.full((len(blocks), 1), 2e-5, "<f2").view(np.uint8)
    return Blocks(14, array.shape, np.concatenate((blocks, scales), 1).tobytes())


def _blocks(tensor: Array | Blocks) -> Blocks:
    if isinstance(tensor, Blocks):
        return tensor
    number = {"float32": 0, "float16": 1, "bfloat16": 30}[tensor.dtype.name]
    return Blocks(number, tensor.shape, tensor.tobytes())


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _text(text: str | bytes) -> bytes:
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<IB", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case [str() | bytes(), *_]:
            texts = b"".join(map(_text, value))
            return struct.pack("<IIQ", 9, 8, len(value)) + texts
        case [float(), *_]:
            return struct.pack("<IIQ", 9, 6, len(value)) + np.array(value, "<f4").tobytes()
        case _:
            return struct.pack("<IIQ", 9, 5, len(value)) + np.array(value, "<i4").tobytes()
