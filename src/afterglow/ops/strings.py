"""Ops on strings, which live on the host."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from afterglow.graph import Op, op
from afterglow.ops.rules import broadcast_shape, require_dtype
from afterglow.support.errors import TypeRuleError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import boolean, string


class LetterCase(Enum):
    """How letters are written."""

    UPPER = "upper"
    LOWER = "lower"


@op("string_concat")
class StringConcat(Op):
    """Strings concatenated element by element."""

    host = True
    elementwise = True

    def infer(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        """Strings of the common shape."""
        require_dtype(string, lhs=lhs, rhs=rhs)
        return TensorType(string, broadcast_shape(lhs=lhs, rhs=rhs))

    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        """Python's concatenation."""
        return np.asarray(lhs + rhs, object)


@op("change_case")
class ChangeCase(Op):
    """Strings converted to upper or lower case, by the rules of Unicode."""

    host = True
    elementwise = True
    case: LetterCase

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type."""
        require_dtype(string, x=x)
        return x

    def evaluate(self, x: Array) -> Array:
        """Python's `upper` and `lower`."""
        return _each(str.upper if self.case is LetterCase.UPPER else str.lower, x, object)


@op("regex_full_match")
class RegexFullMatch(Op):
    """Whether a regular expression matches the whole of each string."""

    host = True
    elementwise = True
    pattern: str

    def infer(self, x: TensorType) -> TensorType:
        """Truth values; the pattern must be one that Python reads."""
        require_dtype(string, x=x)
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise TypeRuleError(
                f"pattern {self.pattern!r} is not a regular expression: {error}"
            ) from None
        return x.with_dtype(boolean)

    def evaluate(self, x: Array) -> Array:
        """Python's `fullmatch`."""
        pattern = re.compile(self.pattern)
        return _each(lambda string: pattern.fullmatch(string) is not None, x, np.bool_)


def _each(function: Callable[[str], Any], x: Array, dtype: Any) -> Array:
    results = np.empty(x.size, dtype)
    results[:] = [function(str(string)) for string in x.reshape(-1)]
    return results.reshape(x.shape)
