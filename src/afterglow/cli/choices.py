"""The algorithm choices of a program's kernels, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.tuning import PlanProgram
from afterglow.cli.report import duration
from afterglow.cli.session import table
from afterglow.driver.kernel_cache import caching_compiler
from afterglow.driver.options import Options
from afterglow.report.choices import ExplainedChoice, explain_choices

MOST_CANDIDATES = 4
"""How many candidate plans of a kernel the table shows."""


def find_choices(
    plan: PlanProgram, options: Options, measure_seconds: float | None
) -> list[ExplainedChoice]:
    """The algorithm choices of a program; empty if the backend is not the CPU."""
    if options.backend != "cpu":
        return []
    compiled = caching_compiler(options.cache)
    return explain_choices(
        plan,
        Target.of(options.target),
        options.policy,
        seconds=measure_seconds,
        compiled=compiled,
    )


def choice_data(choice: ExplainedChoice) -> dict[str, Any]:
    """The choice as a JSON object."""
    return {**asdict(choice), "chosen": choice.candidates[0].name}


def choice_table(choices: Sequence[ExplainedChoice]) -> Table:
    """A row for each candidate, grouped by kernel, the chosen plan first."""
    measured = any(each.seconds is not None for c in choices for each in c.candidates)
    numbers = ("estimate", "workspace", *(("measured",) if measured else ()))
    rows = table("kernel", "uses", "operands", "algorithm", *numbers, right=("uses", *numbers))
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
            rows.add_row(*about, each.name, *figures, style=style)
            about = ("", "", "")
    return rows
