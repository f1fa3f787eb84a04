"""The outputs of a run: statistics of each, and its error relative to a reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.tables import table
from afterglow.types import Array, TensorType

SHOWN_VALUES = 4
"""How many elements of an output are shown."""


@dataclass(frozen=True)
class Result:
    """An output of a run, and its error relative to a reference, if there is one."""

    name: str
    array: Array
    error: float | None = None

    @property
    def type(self) -> str:
        """Element type and shape."""
        return str(TensorType.of(self.array))

    def statistics(self) -> tuple[float, float, float] | None:
        """Smallest, largest and mean element; None for empty and non-numeric arrays."""
        if not self.array.size or self.array.dtype.kind in "OcSU":
            return None
        wide = self.array.astype(np.float64)
        return float(wide.min()), float(wide.max()), float(wide.mean())

    def first(self) -> list[Any]:
        """The first few elements."""
        return [_plain(x) for x in self.array.reshape(-1)[:SHOWN_VALUES]]

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        numbers = self.statistics() or (None, None, None)
        smallest, largest, mean = (None if n is None else _plain(n) for n in numbers)
        return {
            "name": self.name,
            "type": self.type,
            "min": smallest,
            "max": largest,
            "mean": mean,
            "first": self.first(),
            **({} if self.error is None else {"relative_error": _plain(self.error)}),
        }


def result_table(results: Sequence[Result]) -> Table:
    """A row for each output."""
    compared = any(result.error is not None for result in results)
    columns = ["output", "type", "min", "max", "mean", "first values"]
    rows = table(
        *columns,
        *(["relative error"] if compared else []),
        right=("min", "max", "mean", "relative error"),
    )
    for result in results:
        statistics = result.statistics()
        shown = ["", "", ""] if statistics is None else [f"{n:.4g}" for n in statistics]
        error = [] if result.error is None else [f"{result.error:.2g}"]
        first = " ".join(map(_brief, result.first()))
        more = " …" if result.array.size > SHOWN_VALUES else ""
        rows.add_row(result.name, result.type, *shown, first + more, *error)
    return rows


def _brief(element: Any) -> str:
    return f"{element:.4g}" if isinstance(element, float) else str(element)


def _plain(element: Any) -> Any:
    """The element as a JSON value; infinities and NaN, which JSON lacks, become strings."""
    match element:
        case str() | bool() | int():
            return element
        case np.bool_():
            return bool(element)
        case np.integer():
            return int(element)
        case complex() | np.complexfloating():
            return str(element)
    number = float(element)
    return number if math.isfinite(number) else str(number)
