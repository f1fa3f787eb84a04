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
    Status.OK: "success",
    Status.NULL: "a required pointer is null",
    Status.ALIGNMENT: "the arena or the weights are not aligned",
    Status.WEIGHTS_SIZE: "the weights have the wrong size: they belong to another model",
    Status.WEIGHTS_CONTENT: "the weights have the wrong checksum: damaged, or of another model",
    Status.SELF_CHECK: "the code computes wrong results on this machine",
    Status.EXTENT: "the model was not compiled for these extents",
    Status.INDEX: "an index in the inputs is out of range: the outputs are undefined",
}
