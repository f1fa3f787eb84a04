"""What comes out of a run: numbers about each output, and how far it is from a reference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from rich.table import Table

from afterglow.cli.session import table
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.types import Array, TensorType

SHOWN_VALUES = 4
"""How many elements of an output are shown."""


@dataclass(frozen=True)
class Result:
    """An output of a run, and how far it is from the reference, if there is one."""

    name: str
    array: Array
    error: float | None = None

    @property
    def type(self) -> str:
        """Element type and shape."""
        return str(TensorType.of(self.array))

    def statistics(self) -> tuple[float, float, float] | None:
        """Smallest, largest and mean element, where that makes sense."""
        if not self.array.size or self.array.dtype.kind in "OcSU":
            return None
        wide = self.array.astype(np.float64)
        return float(wide.min()), float(wide.max()), float(wide.mean())

    def first(self) -> list[Any]:
        """The first few elements."""
        return [_plain(x) for x in self.array.reshape(-1)[:SHOWN_VALUES]]

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
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
    """The tensors that an output is made of: those of a sequence, and maps as rows of one."""
    if isinstance(output, list) and all(isinstance(item, Mapping) for item in output):
        yield name, np.array([list(row.values()) for row in output])
    elif isinstance(output, list):
        yield from ((f"{name}[{index}]", np.asarray(x)) for index, x in enumerate(output))
    elif output is not None:
        yield name, np.asarray(output)


def onnxruntime_outputs(path: str, feed: Mapping[str, Array]) -> list[Any]:
    """What ONNX Runtime computes, with its rewriting of graphs switched off."""
    try:
        runtime: Any = import_module("onnxruntime")  # optional, and slow to load
    except ImportError:
        raise UsageError(
            "onnxruntime is not installed", help="pip install onnxruntime, or leave --compare out"
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
    """A number, truth value or text that JSON can hold: it has no infinities, and no NaN."""
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
