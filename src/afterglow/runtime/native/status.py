"""What the functions of a bundle return."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """A result of a function: 0, or what is wrong."""

    OK = 0
    NULL = 1
    ALIGNMENT = 2
    WEIGHTS_SIZE = 3
    WEIGHTS_CONTENT = 4
    SELF_CHECK = 5
    EXTENT = 6
    INDEX = 7

    @property
    def meaning(self) -> str:
        """A sentence for the reader of a header."""
        return _MEANINGS[self]


_MEANINGS = {
    Status.OK: "all is well",
    Status.NULL: "a pointer that is needed is null",
    Status.ALIGNMENT: "arena or weights do not begin at a multiple of their alignment",
    Status.WEIGHTS_SIZE: "the weights have another size: they are of another model",
    Status.WEIGHTS_CONTENT: "the weights have another checksum: damaged, or of another model",
    Status.SELF_CHECK: "the code computes other numbers here than it should",
    Status.EXTENT: "no entry is for these extents",
    Status.INDEX: "an input leads to an index out of range: the outputs mean nothing",
}
