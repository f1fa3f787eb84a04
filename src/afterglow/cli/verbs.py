"""The verbs of the command, each imported only when it is used: listing them needs none."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from afterglow.cli.complaints import with_guess
from afterglow.support.errors import UsageError


class Verb(NamedTuple):
    """Where a verb is, and what it does."""

    module: str
    command: str
    summary: str


VERBS = {
    "bench": Verb("bench", "bench", "Time a model, also on other engines."),
    "check": Verb("check", "check", "Say what is in a model, and whether it is supported."),
    "compile": Verb(
        "compile", "compile_command", "Compile a model; show its memory and the time it took."
    ),
    "dump": Verb("dump", "dump", "Print a model at any stage of the compiler."),
    "explain": Verb(
        "explain", "explain", "Say where a model's memory goes, and what kernels chose."
    ),
    "help": Verb("help", "help_command", "Show what the command does, or one of these verbs."),
    "profile": Verb("profile", "profile_command", "Say where the time of a run goes."),
    "run": Verb("run", "run", "Run a model, and compare its outputs."),
    "targets": Verb("targets", "targets", "List the machines that code can be made for."),
}


class Verbs(click.Group):
    """A group of commands that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all verbs."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb; None if there is no such verb."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        found: click.Command = getattr(import_module(f"afterglow.cli.{verb.module}"), verb.command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that the first argument names, with a guess at what was meant if none."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise UsageError(
                f"no such command '{args[0]}'",
                help=with_guess(args[0], VERBS, "see afterglow --help"),
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all verbs with what they do."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])
