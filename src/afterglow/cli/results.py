"""The outputs of a run: statistics of each, and its error relative to a reference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from rich.table import Table

from afterglow.support.errors import UnsupportedError, UsageError
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


def tensors_of(name: str, output: Any) -> Iterator[tuple[str, Array]]:
    """The tensors of an output: the elements of a sequence, or a list of maps as one matrix."""
    if isinstance(output, list) and all(isinstance(item, Mapping) for item in output):
        yield name, np.array([list(row.values()) for row in output])
    elif isinstance(output, list):
        yield from ((f"{name}[{index}]", np.asarray(x)) for index, x in enumerate(output))
    elif output is not None:
        yield name, np.asarray(output)


def onnxruntime_outputs(path: str, feed: Mapping[str, Array]) -> list[Any]:
    """The outputs of ONNX Runtime, with its graph optimisations disabled."""
    try:
        runtime: Any = import_module("onnxruntime")  # optional, and slow to load
    except ImportError:
        raise UsageError(
            "onnxruntime is not installed", help="pip install onnxruntime, or omit --compare"
        ) from None
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        outputs: list[Any] = session.run(None, dict(feed))
        return outputs
    except Exception as error:  # its errors have no common base but this
        first = str(error).strip().splitlines()[0]
        raise UnsupportedError(f"onnxruntime cannot run the model: {first}") from None


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
