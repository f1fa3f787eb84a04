"""The algorithm choices of a program's kernels, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from afterglow.backends.capabilities import Tuning
from afterglow.cli.report import duration
from afterglow.driver.stages import Stages
from afterglow.graph import Module, joined_origins
from afterglow.report.choices import ExplainedChoice, explain_choices
from afterglow.support.tables import table

MOST_NAMES = 4
"""How many nodes of the model the table names for a kernel; the JSON answer has all."""
MOST_CANDIDATES = 4
"""How many candidate plans of a kernel the table shows."""


def find_choices(
    stages: Stages, module: Module, measure_seconds: float | None
) -> list[ExplainedChoice]:
    """The algorithm choices of a lowered model; none if the backend does not tune."""
    if not isinstance(stages.backend, Tuning):
        return []
    return explain_choices(
        stages.backend,
        lambda policy: stages.within(policy).plan(module)[0],
        stages.options.policy,
        measure_seconds,
    )


def choice_data(choice: ExplainedChoice) -> dict[str, Any]:
    """The choice as a JSON object."""
    return {**asdict(choice), "chosen": choice.candidates[0].name}


def choice_table(choices: Sequence[ExplainedChoice]) -> Table:
    """A row for each candidate, grouped by kernel, the chosen plan first."""
    measured = any(each.seconds is not None for c in choices for each in c.candidates)
    numbers = ("estimate", "workspace", *(("measured",) if measured else ()))
    titles = ("kernel", "uses", "operands", "algorithm", *numbers, "from")
    rows = table(*titles, right=("uses", *numbers))
    for choice in choices:
        about: tuple[str, ...] = (
            choice.kernel,
            str(len(choice.origins)),
            ", ".join(choice.operands),
        )
        for place, each in enumerate(choice.candidates[:MOST_CANDIDATES]):
            seconds = "" if each.seconds is None else duration(each.seconds)
            room = f"{each.workspace_bytes:,}" if each.workspace_bytes else ""
            figures = (f"{each.cost / 1e6:,.2f} MFLOP", room, *((seconds,) if measured else ()))
            style = "bold" if place == 0 else "dim"
            nodes = _names(choice) if place == 0 else ""
            rows.add_row(*about, each.name, *figures, nodes, style=style)
            about = ("", "", "")
    return rows


def _names(choice: ExplainedChoice) -> str:
    """The model's nodes that use a kernel, a few of them if there are many."""
    names = joined_origins(choice.origins)
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
