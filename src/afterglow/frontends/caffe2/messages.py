"""The messages of Caffe2's files, as far as they are read: nets, operators and arguments.

Both forms of a file, binary and text, are read by this schema into the same plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


class Kind(Enum):
    """What a field of a message holds."""

    TEXT = "a text"
    BYTES = "bytes"
    FLOAT = "a number"
    INT = "an integer"
    MESSAGE = "a message"


SCHEMA: Mapping[str, Mapping[int, tuple[str, Kind | str]]] = {
    "NetDef": {
        1: ("name", Kind.TEXT),
        2: ("op", "OperatorDef"),
        3: ("type", Kind.TEXT),
        6: ("arg", "Argument"),
        7: ("external_input", Kind.TEXT),
        8: ("external_output", Kind.TEXT),
    },
    "OperatorDef": {
        1: ("input", Kind.TEXT),
        2: ("output", Kind.TEXT),
        3: ("name", Kind.TEXT),
        4: ("type", Kind.TEXT),
        5: ("arg", "Argument"),
        7: ("engine", Kind.TEXT),
        11: ("domain", Kind.TEXT),
    },
    "Argument": {
        1: ("name", Kind.TEXT),
        2: ("f", Kind.FLOAT),
        3: ("i", Kind.INT),
        4: ("s", Kind.BYTES),
        5: ("floats", Kind.FLOAT),
        6: ("ints", Kind.INT),
        7: ("strings", Kind.BYTES),
        8: ("n", Kind.MESSAGE),
        9: ("nets", Kind.MESSAGE),
        10: ("t", Kind.MESSAGE),
        11: ("tensors", Kind.MESSAGE),
        12: ("qtensors", Kind.MESSAGE),
    },
}
"""Message -> field number -> name, and what it holds: a kind, or a message that is read, too.

Fields that are not here are skipped.
"""

Fields: TypeAlias = dict[str, list[Any]]
"""The fields of a message by name, each as often as it occurs; floats may come as `Floats`."""


@dataclass(frozen=True)
class Floats:
    """Many floats, read when someone asks for them."""

    count: int
    read: Callable[[], Array]


@dataclass(frozen=True, eq=False)
class Argument:
    """A named argument of an operator: one of a number, bytes, or a list of them."""

    name: str
    fields: Fields

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, as an empty list does."""
        return not any(
            self.fields.get(key) for _, (key, _) in SCHEMA["Argument"].items() if key != "name"
        )

    def single(self, key: str) -> Any:
        """The value of a field that is there at most once: the last counts."""
        values = self.fields.get(key)
        return None if not values else values[-1]

    @cached_property
    def floats(self) -> Array:
        """The list of floats."""
        chunks = self.fields.get("floats", [])
        plain = [chunk for chunk in chunks if not isinstance(chunk, Floats)]
        if len(plain) == len(chunks):
            return np.array(plain, np.float32)
        arrays = (c.read() if isinstance(c, Floats) else np.array([c], np.float32) for c in chunks)
        return np.concatenate([*arrays])

    @property
    def ints(self) -> list[int]:
        """The list of integers."""
        return self.fields.get("ints", [])

    @property
    def strings(self) -> list[bytes]:
        """The list of byte strings."""
        return self.fields.get("strings", [])


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of a net: a type, applied to blobs by their names."""

    type: str
    name: str
    input: tuple[str, ...]
    output: tuple[str, ...]
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    engine: str = ""

    @property
    def label(self) -> str:
        """How errors call it."""
        return self.name or next(iter(self.output), self.type)


@dataclass(frozen=True, eq=False)
class Net:
    """A net: operators that run one after the other, and blobs that come from and go outside."""

    name: str
    operators: tuple[Operator, ...]
    external_input: tuple[str, ...] = ()
    external_output: tuple[str, ...] = ()


def net_of(fields: Fields) -> Net:
    """The net that the fields of a `NetDef` describe."""
    return Net(
        _last(fields, "name"),
        tuple(map(_operator, fields.get("op", []))),
        tuple(fields.get("external_input", [])),
        tuple(fields.get("external_output", [])),
    )


def _operator(fields: Fields) -> Operator:
    type = _last(fields, "type")
    if not type:
        raise ModelError("an operator has no type")
    arguments = (Argument(_last(each, "name"), each) for each in fields.get("arg", []))
    return Operator(
        type,
        _last(fields, "name"),
        tuple(fields.get("input", [])),
        tuple(fields.get("output", [])),
        {argument.name: argument for argument in arguments if not argument.is_empty},
        _last(fields, "engine"),
    )


def _last(fields: Fields, key: str) -> str:
    values = fields.get(key)
    return str(values[-1]) if values else ""
