"""Tables as Afterglow prints them, on terminals and as plain text."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

WIDE = 160
"""Width of tables in columns if the output is not a terminal."""


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table; columns named in `right` are right-aligned. Long text is wrapped."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def plain_text(rows: Table) -> str:
    """A table as lines without colours."""
    console = Console(width=WIDE, color_system=None, force_jupyter=False)
    with console.capture() as captured:
        console.print(rows)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
