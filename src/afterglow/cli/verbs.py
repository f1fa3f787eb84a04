"""The subcommands, each imported only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from afterglow.cli.click_errors import with_suggestion
from afterglow.support.errors import UsageError


class Verb(NamedTuple):
    """A subcommand: its module, its function, and a one-line summary."""

    module: str
    command: str
    summary: str


VERBS = {
    "bench": Verb("bench", "bench", "Time a model, here and in other engines."),
    "cache": Verb("cache", "cache", "Show what is cached on disk, and remove it."),
    "check": Verb("check", "check", "Describe a model and report whether it is supported."),
    "compare": Verb("compare", "compare", "Find the first layer that differs from a reference."),
    "compile": Verb(
        "compile", "compile_command", "Compile a model; show its memory and compile time."
    ),
    "devices": Verb("devices", "devices", "List what models can run on, and how fast it is."),
    "dump": Verb("dump", "dump", "Print a model at any stage of the compiler."),
    "explain": Verb(
        "explain", "explain", "Show a model's memory plan and its choice of algorithms."
    ),
    "generate": Verb("generate", "generate", "Generate text with a language model."),
    "help": Verb("help", "help_command", "Show the help of the command, or of one of these."),
    "info": Verb("info", "info", "Show what a file holds and needs, without running it."),
    "profile": Verb("profile", "profile_command", "Show where the time of a run goes."),
    "quantize": Verb("quantize", "quantize", "Profile the values of a model on samples."),
    "report": Verb("report_page", "report", "Write a page that shows all about a model."),
    "run": Verb("run", "run", "Run a model, and compare its outputs."),
    "serve": Verb("serve", "serve", "Serve the models of a folder over HTTP and gRPC."),
    "targets": Verb("targets", "targets", "List the machines that code can be generated for."),
}


class Verbs(click.Group):
    """A command group that imports its subcommands on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all subcommands."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of this name; None if there is no such subcommand."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        found: click.Command = getattr(import_module(f"afterglow.cli.{verb.module}"), verb.command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand named by the first argument; the error suggests a similar name."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise UsageError(
                f"no such command '{args[0]}'",
                help=with_suggestion(args[0], VERBS, "see afterglow --help"),
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all subcommands with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])
