"""What a file says about its model, by key: asked for by kind, so that nothing else passes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass

LARGEST = 1 << 31
"""No number of layers, heads, tokens or elements of a row is as large."""


@dataclass(frozen=True)
class Facts:
    """Values by key; `where` is what errors call them."""

    entries: Mapping[str, Any]
    where: str

    def has(self, key: str) -> bool:
        """Whether there is such a key, with a value."""
        return self.entries.get(key) is not None

    def integer(self, key: str, default: int | None = None) -> int:
        """A number that counts something; without a default it must be there."""
        value = self._found(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise self._wrong(key, "an integer")
        if not 0 <= int(value) < LARGEST:
            raise ModelError(f"{key!r} of {self.where} is {value}, which cannot be")
        return int(value)

    def positive(self, key: str, default: int | None = None) -> int:
        """The same, which is not 0."""
        value = self.integer(key, default)
        if not value:
            raise ModelError(f"{key!r} of {self.where} is 0, which cannot be")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A real number; without a default it must be there."""
        value = self._found(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise self._wrong(key, "a number")
        if not math.isfinite(value):
            raise ModelError(f"{key!r} of {self.where} is {value}, which cannot be")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """A truth value."""
        value = self._found(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "a truth value")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        value = self._found(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty if there is none."""
        value = self._found(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._wrong(key, "a list of texts")
        return value

    def integers(self, key: str) -> list[int]:
        """A list of integers; empty if there is none."""
        return [int(each) for each in self._numbers(key, "iu")]

    def numbers(self, key: str) -> list[float]:
        """A list of real numbers; empty if there is none."""
        return [float(each) for each in self._numbers(key, "iuf")]

    def _numbers(self, key: str, kinds: str) -> list[Any]:
        value = self._found(key, [])
        if not isinstance(value, (list, np.ndarray)):
            raise self._wrong(key, "a list of numbers")
        plain = value.tolist() if isinstance(value, np.ndarray) else value
        wanted = (int, float) if "f" in kinds else (int,)
        if not all(isinstance(each, wanted) and not isinstance(each, bool) for each in plain):
            raise self._wrong(key, "a list of numbers")
        return plain

    def within(self, key: str) -> Facts:
        """The facts that a key has as its value; none if there is no such key."""
        value = self._found(key, {})
        if not isinstance(value, Mapping):
            raise self._wrong(key, "an object")
        return Facts(value, f"{key!r} of {self.where}")

    def _found(self, key: str, default: Any) -> Any:
        value = self.entries.get(key)
        if value is not None:
            return value
        if default is None:
            raise ModelError(f"{self.where} have no {key!r}, which the model needs")
        return default

    def _wrong(self, key: str, wanted: str) -> ModelError:
        return ModelError(f"{key!r} of {self.where} must be {wanted}")
