"""Text that goes to a file or to standard output."""

from __future__ import annotations

from pathlib import Path

import click

from afterglow.support.output_path import unwritable as unwritable


def write_text(path: Path | None, text: str) -> None:
    """Write a text to a file, or print it if there is none."""
    if path is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from None
