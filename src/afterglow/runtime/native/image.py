"""The image: code and data laid out as they will lie in memory, wherever that is.

Three parts follow each other, each from a page of its own on: text, constants, and memory that the
code writes. All references between them are relative. The few words that must hold addresses, those
of imported functions among them, lie with the constants and are filled when the image is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

Bytes: TypeAlias = bytes | memoryview

_LENGTH = 8


@dataclass(frozen=True)
class Image:
    """Linked code; see `link`."""

    machine: str
    """The architecture, as `Target` calls it."""
    code: Bytes
    """All parts, without the zeros at the end of the last."""
    constants: int
    """Where the text ends and the constants begin."""
    writable: int
    """Where the constants end and the memory begins that the code writes."""
    size: int
    """Bytes of memory that the image takes, zeros included."""
    symbols: Mapping[str, int]
    """Where each function begins, in order; of local ones with the same name, each has its own."""
    sizes: Mapping[str, int]
    """Bytes of each function."""
    pointers: tuple[int, ...] = ()
    """Words that hold offsets within the image, to which its address is added."""
    imports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Words to which the address of a function from outside is added, by its name."""

    def describe(self) -> dict[str, Any]:
        """All but the code, as what JSON can hold: to store the code somewhere else."""
        return {
            "machine": self.machine,
            "constants": self.constants,
            "writable": self.writable,
            "size": self.size,
            "functions": [[name, at, self.sizes[name]] for name, at in self.symbols.items()],
            "pointers": list(self.pointers),
            "imports": {name: list(words) for name, words in self.imports.items()},
        }

    @staticmethod
    def of(description: Mapping[str, Any], code: Bytes) -> Image:
        """The image that was described so."""
        functions = description["functions"]
        return Image(
            machine=description["machine"],
            code=code,
            constants=description["constants"],
            writable=description["writable"],
            size=description["size"],
            symbols={name: at for name, at, _ in functions},
            sizes={name: size for name, _, size in functions},
            pointers=tuple(description["pointers"]),
            imports={name: tuple(words) for name, words in description["imports"].items()},
        )

    def to_bytes(self) -> bytes:
        """The whole image as bytes: the code first, then its description and that one's length."""
        text = json.dumps(self.describe(), separators=(",", ":")).encode()
        return b"".join([self.code, text, len(text).to_bytes(_LENGTH, "little")])

    @staticmethod
    def from_bytes(data: Bytes) -> Image:
        """The image that `to_bytes` wrote; the code is not copied."""
        view = memoryview(data)
        end = len(view) - _LENGTH
        start = end - int.from_bytes(view[max(end, 0) :], "little")
        try:
            return Image.of(json.loads(bytes(view[max(start, 0) : end])), view[: max(start, 0)])
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"these {len(view)} bytes are not a code image") from None
