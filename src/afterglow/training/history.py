"""The history of a training run: a row for each epoch, as a table, a file or a picture."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from html import escape
from pathlib import Path
from typing import Any, overload

from rich.table import Table

from afterglow.support.atomic_file import replace_file
from afterglow.support.durations import duration
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import checked_path, writing
from afterglow.support.tables import plain_text, table
from afterglow.training.history_picture import history_svg

VALIDATION = "val_"
"""How the names of numbers begin that were computed on the data for validation."""


@dataclass(frozen=True)
class Epoch:
    """What one pass over the data gave."""

    epoch: int
    """Its number, from 1 on."""
    steps: int
    loss: float
    """The mean over its samples, each with the weights of its step."""
    lr: float
    """The learning rate of its last step."""
    seconds: float
    samples: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    val_loss: float | None = None
    """The loss on the data for validation, with the weights at its end."""
    val_metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def samples_per_second(self) -> float:
        """How many samples were learnt from in a second; validation does not count."""
        return self.samples / self.seconds if self.seconds > 0 else 0.0

    @property
    def numbers(self) -> dict[str, float]:
        """Losses and metrics by name; those of validation begin with `val_`."""
        validated = {} if self.val_loss is None else {"loss": self.val_loss, **self.val_metrics}
        named = {f"{VALIDATION}{name}": value for name, value in validated.items()}
        return {"loss": self.loss, **self.metrics, **named}

    @property
    def row(self) -> dict[str, float]:
        """All numbers of the epoch by name, in the order of the columns."""
        return {
            "epoch": self.epoch,
            "steps": self.steps,
            **self.numbers,
            "lr": self.lr,
            "seconds": self.seconds,
            "samples_per_second": self.samples_per_second,
        }

    def __str__(self) -> str:
        """One line, as it is printed at the end of an epoch."""
        shown = (f"{name} {value:.4g}" for name, value in self.numbers.items())
        times = f"{duration(self.seconds)}, {self.samples_per_second:,.0f} samples/s"
        return f"epoch {self.epoch}: {', '.join(shown)}, lr {self.lr:.3g}, {times}"


@dataclass
class History(Sequence[Epoch]):
    """The epochs of a training run, in order; printed, it is a table."""

    epochs: list[Epoch] = field(default_factory=list)
    stopped: str = ""
    """Why the run ended before its last epoch; empty if it did not."""

    def __len__(self) -> int:
        return len(self.epochs)

    def __iter__(self) -> Iterator[Epoch]:
        return iter(self.epochs)

    @overload
    def __getitem__(self, key: int) -> Epoch: ...

    @overload
    def __getitem__(self, key: str) -> list[float]: ...

    @overload
    def __getitem__(self, key: slice) -> list[Epoch]: ...

    def __getitem__(self, key: int | slice | str) -> Epoch | list[Epoch] | list[float]:
        """An epoch by its place, or a column by its name; epochs that lack the number are left."""
        if not isinstance(key, str):
            return self.epochs[key]
        if key not in self.columns:
            raise UsageError(
                f"the history has no column {key!r}", help=f"it has {', '.join(self.columns)}"
            )
        return [epoch.row[key] for epoch in self.epochs if key in epoch.row]

    @property
    def columns(self) -> list[str]:
        """The names of all numbers that an epoch has."""
        if not self.epochs:
            return [*Epoch(0, 0, 0.0, 0.0, 0.0, 0).row]
        return [*dict.fromkeys(name for epoch in self.epochs for name in epoch.row)]

    def table(self) -> Table:
        """The history as a table for a console of `rich`."""
        columns = self.columns
        rows = table(*(_HEADINGS.get(name, name) for name in columns))
        for column in rows.columns:
            column.justify = "right"
        for epoch in self.epochs:
            rows.add_row(*(_cell(name, epoch.row.get(name)) for name in columns))
        return rows

    def __str__(self) -> str:
        text = plain_text(self.table())
        return f"{text}\n\n{self.stopped}" if self.stopped else text

    def csv(self, path: str | Path | None = None) -> str:
        """The history as comma-separated values, which are written to a file if one is named."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(epoch.row for epoch in self.epochs)
        return _written(path, text.getvalue())

    def json(self, path: str | Path | None = None) -> str:
        """The history as JSON, which is written to a file if one is named."""
        data = {"stopped": self.stopped, "epochs": [epoch.row for epoch in self.epochs]}
        return _written(path, json.dumps(data, indent=2) + "\n")

    def plot(self, path: str | Path | None = None) -> str:
        """The history as a picture in SVG, which is written to a file if one is named.

        A panel for the losses, and one for each metric; it follows the reader's choice of a light
        or a dark page.
        """
        return _written(path, self._picture())

    def _picture(self) -> str:
        names = dict.fromkeys(
            name.removeprefix(VALIDATION) for epoch in self.epochs for name in epoch.numbers
        )
        panels = {name: {k: self._curve(k) for k in (name, VALIDATION + name)} for name in names}
        return history_svg({n: {k: c for k, c in p.items() if c} for n, p in panels.items()})

    def _curve(self, name: str) -> list[tuple[float, float]]:
        """The epochs that have a number, and the number."""
        return [(e.epoch, e.numbers[name]) for e in self.epochs if name in e.numbers]

    def _repr_html_(self) -> str:
        """The picture and the table, as notebooks show them."""
        heads = "".join(f"<th>{escape(_HEADINGS.get(n, n))}</th>" for n in self.columns)
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{_cell(name, epoch.row.get(name))}</td>" for name in self.columns)
            + "</tr>"
            for epoch in self.epochs
        )
        stopped = f"<p>{escape(self.stopped)}</p>" if self.stopped else ""
        return f"{self._picture()}<table><tr>{heads}</tr>{rows}</table>{stopped}"

    def data(self) -> dict[str, Any]:
        """What JSON can hold, from which `of_data` makes the same history."""
        return {"stopped": self.stopped, "epochs": [asdict(epoch) for epoch in self.epochs]}

    @staticmethod
    def of_data(data: Mapping[str, Any]) -> History:
        """The history that gave such data."""
        return History([Epoch(**epoch) for epoch in data["epochs"]], data["stopped"])


_HEADINGS = {"seconds": "time", "samples_per_second": "samples/s"}
_FORMATS: dict[str, Callable[[float], str]] = {
    "epoch": str,
    "steps": str,
    "lr": "{:.3g}".format,
    "seconds": duration,
    "samples_per_second": "{:,.0f}".format,
}


def _cell(name: str, value: float | None) -> str:
    return "" if value is None else _FORMATS.get(name, "{:.4g}".format)(value)


def _written(path: str | Path | None, text: str) -> str:
    """The text, after it was written to a file."""
    if path is not None:
        target = checked_path(path, "history")
        with writing(target):
            replace_file(target, [text.encode()])
    return text
