"""What an importer sees of a call of a PyTorch op: its arguments by the names of its schema.

A call becomes a `NodeDef` whose attributes are the arguments, with the defaults of the schema, but
for those that are None. Where an argument is a tensor, or an integer that the graph computes, the
attribute is the text `%k`: operand k of the node. A list that has such among its items is a list of
texts: `%k`, the number itself, or nothing for None. Element types are texts: our names of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.symbolic import whole
from afterglow.graph import Value
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types import DType
from afterglow.types.dtype import DTYPES

LAYOUT = "\0layout"
"""The attribute that has where the first operand begins in its memory, then its strides."""

PLACE = "\0place"
"""The attribute that has the line of the program that a call comes from."""

RESULTS = "\0results"
"""The attribute that has the element types of the results, as texts."""


class TorchNode(NodeContext):
    """One call of a PyTorch op being imported."""

    def argument(self, name: str) -> Any:
        """An argument: a value, a number, a text, None, or a tuple of such."""
        given = self.attribute(name)
        if isinstance(given, str):
            return self._item(given)
        if isinstance(given, tuple):
            return tuple(self._item(each) if isinstance(each, str) else each for each in given)
        return given

    def _item(self, text: str) -> Any:
        if text.startswith("%"):
            return self[int(text[1:])]
        return text

    def value(self, name: str) -> Value:
        """A tensor argument, which must be given."""
        found = self.argument(name)
        if not isinstance(found, Value):
            raise ModelError(f"argument {name!r} must be a tensor, it is {found!r}")
        return found

    def optional(self, name: str) -> Value | None:
        """A tensor argument, or None."""
        return None if self.argument(name) is None else self.value(name)

    def tensors(self, name: str) -> list[Value | None]:
        """An argument that is a list of tensors, some of which may be None."""
        found = self.argument(name) or ()
        return [each if isinstance(each, Value) else None for each in found]

    def is_value(self, name: str) -> bool:
        """Whether an argument is an operand, rather than a number."""
        return isinstance(self.argument(name), Value)

    def size(self, name: str) -> int:
        """An integer argument that may be ranged."""
        return self._size(self.argument(name), name)

    def sizes(self, name: str) -> tuple[int, ...]:
        """An argument that is a list of integers, which may be ranged; a single one is a list."""
        found = self.argument(name)
        items = found if isinstance(found, tuple) else (found,)
        return tuple(self._size(item, name) for item in items)

    def _size(self, item: Any, name: str) -> int:
        if isinstance(item, Value):
            elements = self.graph.known.symbols_of(item)
            return whole(elements.item()) if elements is not None else int(self.value_of(item))
        if isinstance(item, str) or item is None:
            return int(self._number(item, name))
        return int(item)

    def scalar(self, name: str) -> Any:
        """A number argument: int, float or bool, as the program has it."""
        found = self.argument(name)
        if isinstance(found, Value):
            return self.value_of(found).item()
        return self._number(found, name)

    def _number(self, found: Any, name: str) -> Any:
        if isinstance(found, str):
            return self._read_number(found, name)
        if found is None:
            raise ModelError(f"argument {name!r} is missing")
        return found

    def _read_number(self, text: str, name: str) -> Any:
        try:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            raise UnsupportedError(f"argument {name!r} is the complex number {text}") from None

    def flag(self, name: str) -> bool:
        """A truth value; False if it is not given."""
        return bool(self.argument(name))

    def element_type(self, name: str) -> DType | None:
        """An element type argument; None if it is not given."""
        text = self.attribute(name)
        return None if text is None else named(str(text))

    def result_type(self, index: int = 0) -> DType:
        """The element type of a result."""
        return named(str(self.attribute(RESULTS)[index]))

    def full(self, number: Any, dtype: DType) -> Value:
        """A constant without axes."""
        return self.constant(np.array(number, dtype.numpy))


def named(text: str) -> DType:
    """The element type of this name."""
    if text not in DTYPES:
        raise UnsupportedError(f"unsupported element type {text}")
    return DTYPES[text]
