"""Where a command's words go: tables and JSON to standard output, the rest to standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from afterglow.support.errors import AfterglowError

WIDE = 160
"""Columns of tables that go to a file or a pipe, where nothing else says how many there are."""

_COLOURS = {"error:": "bold red", "warning:": "bold yellow", "help:": "cyan", ">": "bold"}

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Session:
    """One run of the command: what it was asked for in general, and its two streams."""

    json: bool = False
    debug: bool = False
    out: Console = field(default_factory=lambda: _console(stderr=False))
    err: Console = field(default_factory=lambda: _console(stderr=True))
    _answers: list[dict[str, Any]] | None = None
    """As JSON, those that are printed together; None if there is only one."""

    def answer(self, data: Mapping[str, Any], show: Callable[[], None]) -> None:
        """Print the answer: the data as JSON if that was asked for, or else what `show` prints."""
        if not self.json:
            show()
        elif self._answers is not None:
            self._answers[-1].update(data)
        else:
            _print_json(data)

    @contextmanager
    def several(self, name: str) -> Iterator[None]:
        """Print all answers that are given here; as JSON they are a list of this name."""
        self._answers = []
        yield
        if self.json:
            _print_json({name: self._answers})

    def begin_answer(self, about: Mapping[str, Any], heading: str) -> None:
        """What the next of several answers is about: as JSON, and as a heading."""
        if self._answers is not None:
            self._answers.append(dict(about))
        if not self.json:
            self.say(heading, "bold")

    def say(self, text: str, style: str = "") -> None:
        """A line of the answer, as it is."""
        self.out.print(Text(text, style), soft_wrap=True)

    def show(self, rows: Table) -> None:
        """A table of the answer, with an empty line below it."""
        self.out.print(rows)
        self.out.print()

    def fail(self, error: AfterglowError) -> None:
        """Print an error: what, where, an excerpt, and help."""
        if self.json:
            _print_json({"error": error_data(error), "exit_status": error.exit_status})
        for line in str(error).splitlines():
            self.err.print(_coloured(line), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning as a line on standard error."""
        self.err.print(_coloured(f"warning: {text}"), soft_wrap=True)


def _print_json(data: Mapping[str, Any]) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=WIDE)


def _coloured(line: str) -> Text:
    text = Text(line)
    first = line.lstrip().split(" ", 1)[0]
    if first in _COLOURS:
        start = len(line) - len(line.lstrip())
        text.stylize(_COLOURS[first], start, start + len(first))
    return text


def error_data(error: AfterglowError) -> dict[str, Any]:
    """An error as JSON has it."""
    return {
        "kind": type(error).__name__,
        "what": error.what,
        "where": error.where,
        "excerpt": list(error.excerpt),
        "help": error.help,
    }


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table; columns named in `right` hold numbers. Nothing in it is cut off."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def general_options(command: Command) -> Command:
    """`--json` and `--debug`, which every verb has; they set the session and reach no verb."""
    for name, help in (
        ("json", "Print the answer as JSON."),
        ("debug", "Show the traceback of an internal error."),
    ):
        command = click.option(
            f"--{name}",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_setting,
            help=help,
        )(command)
    return command


def _setting(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and parameter.name:
        setattr(context.find_object(Session), parameter.name, True)
