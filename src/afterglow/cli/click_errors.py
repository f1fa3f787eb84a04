"""Converts click's errors about the command line to Afterglow's own."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import click

from afterglow.support.errors import UsageError


def as_usage_error(error: click.ClickException) -> UsageError:
    """The UsageError for an error of click, with a suggestion if a known option is similar."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "afterglow"
    help = f"see {path} --help"
    if isinstance(error, click.NoSuchOption) and context is not None:
        message = f"no such option '{error.option_name}'"
        options = (name for parameter in context.command.params for name in parameter.opts)
        help = with_suggestion(error.option_name, options, help)
    return UsageError(message[:1].lower() + message[1:], help=help)


def with_suggestion(word: str, known: Iterable[str], help: str) -> str:
    """The help text, preceded by a suggestion if one of the known words is similar."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f"did you mean '{close[0]}'? {help}" if close else help
