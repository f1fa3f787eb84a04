"""What a caller gets for an output that is not one tensor: told as data, and put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any


class OutputKind(Enum):
    """What an output is made into."""

    TENSOR = "tensor"
    SEQUENCE = "sequence"
    NOTHING = "none"
    MAPS = "maps"


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
                return [dict(zip(self.keys, row.tolist(), strict=True)) for row in arrays[0]]
        return arrays[0]


def assemble(forms: Sequence[OutputForm], arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a model from those of its function, in order."""
    rest = iter(arrays)
    return [form.assembled(list(islice(rest, form.count))) for form in forms]


def tensor_forms(names: Sequence[str]) -> tuple[OutputForm, ...]:
    """The forms of outputs that are all tensors."""
    return tuple(OutputForm(name) for name in names)
