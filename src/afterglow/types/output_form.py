"""Outputs that are not one tensor: their description, and how they are assembled."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import Any

from afterglow.support.lazy_dataclass import dataclass


class OutputKind(Enum):
    """The form in which a caller gets an output."""

    TENSOR = "tensor"
    SEQUENCE = "sequence"
    NOTHING = "none"
    MAPS = "maps"


_OF = "\0"
"""Between the name of a sequence and the number of an element; no model has it in its names."""


@dataclass(frozen=True)
class OutputForm:
    """One output of a model, which takes `count` outputs of the function that computes it.

    Maps are a list of dictionaries, one a row of their tensor; its columns belong to `keys`.
    """

    name: str
    kind: OutputKind = OutputKind.TENSOR
    count: int = 1
    keys: tuple[int | str, ...] = ()

    def assembled(self, arrays: Sequence[Any]) -> Any:
        """The output from its tensors: an array, a list, None, or a list of dictionaries."""
        match self.kind:
            case OutputKind.SEQUENCE:
                return list(arrays)
            case OutputKind.NOTHING:
                return None
            case OutputKind.MAPS:
                return [dict(zip(self.keys, row, strict=True)) for row in arrays[0].tolist()]
        return arrays[0]


def assemble(forms: Sequence[OutputForm], arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a model from those of its function, in order."""
    rest = iter(arrays)
    return [form.assembled(list(islice(rest, form.count))) for form in forms]


def tensor_forms(names: Sequence[str]) -> tuple[OutputForm, ...]:
    """The forms of outputs that are all tensors."""
    return tuple(OutputForm(name) for name in names)


def element_name(sequence: str, index: int) -> str:
    """The name of the function input that holds one element of a sequence."""
    return f"{sequence}{_OF}{index}"


def element_place(name: str) -> tuple[str, int | None]:
    """The inverse of `element_name`: the name of the value, and the index of the element if any."""
    sequence, found, index = name.rpartition(_OF)
    return (sequence, int(index)) if found and index.isdecimal() else (name, None)
