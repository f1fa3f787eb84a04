"""Output of a command: tables and JSON to standard output, the rest to standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from afterglow.support.errors import AfterglowError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.tables import WIDE

_COLOURS = {"error:": "bold red", "warning:": "bold yellow", "help:": "cyan", ">": "bold"}

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Session:
    """One invocation of the command: its general options and output streams."""

    json: bool = False
    debug: bool = False
    out: Console = field(default_factory=lambda: _console(stderr=False))
    err: Console = field(default_factory=lambda: _console(stderr=True))
    _answers: list[dict[str, Any]] | None = None
    """JSON objects that are printed together as a list; None if there is only one."""

    def answer(self, data: Mapping[str, Any], show: Callable[[], None]) -> None:
        """Print the result: the data as JSON with `--json`, otherwise what `show` prints."""
        if not self.json:
            show()
        elif self._answers is not None:
            self._answers[-1].update(data)
        else:
            _print_json(data)

    @contextmanager
    def several(self, name: str) -> Iterator[None]:
        """Print several results; the JSON output is an object with a list of this name."""
        self._answers = []
        yield
        if self.json:
            _print_json({name: self._answers})

    def begin_answer(self, about: Mapping[str, Any], heading: str) -> None:
        """Begin the next of several results, with its JSON description and its heading."""
        if self._answers is not None:
            self._answers.append(dict(about))
        if not self.json:
            self.say(heading, "bold")

    def say(self, text: str, style: str = "") -> None:
        """Print a line to standard output."""
        self.out.print(Text(text, style), soft_wrap=True)

    def show(self, rows: Table) -> None:
        """Print a table to standard output, followed by an empty line."""
        self.out.print(rows)
        self.out.print()

    def fail(self, error: AfterglowError) -> None:
        """Print an error: message, location, excerpt and help."""
        if self.json:
            _print_json({"error": error_data(error), "exit_status": error.exit_status})
        for line in str(error).splitlines():
            self.err.print(_coloured(line), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
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
    """An error as a JSON object."""
    return {
        "kind": type(error).__name__,
        "what": error.what,
        "where": error.where,
        "excerpt": list(error.excerpt),
        "help": error.help,
    }


def general_options(command: Command) -> Command:
    """Decorator that adds `--json` and `--debug`, which set fields of the session."""
    for name, help in (
        ("json", "Print the result as JSON."),
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
