"""The subcommands, each imported only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from afterglow.cli.click_errors import with_suggestion
from afterglow.support.errors import UsageError


class Verb(NamedTuple):
    """A subcommand: its module, its function, a one-line summary, and examples.

    Examples are for `digits.onnx` of this project, and run in their order.
    """

    module: str
    command: str
    summary: str
    examples: tuple[str, ...] = ()


VERBS = {
    "bench": Verb(
        "bench",
        "bench",
        "Time a model, here and in other engines.",
        (
            "afterglow bench digits.onnx --seconds 1",
            "afterglow bench digits.onnx --vs '' --clients 2 --seconds 1 --save before.json",
            "afterglow bench digits.onnx --vs '' --seconds 1 --against before.json",
        ),
    ),
    "cache": Verb(
        "cache",
        "cache",
        "Show what is cached on disk, and remove it.",
        (
            "afterglow cache list",
            "afterglow cache prune --older-than 30d --max-size 1GiB",
            "afterglow cache limits",
        ),
    ),
    "check": Verb(
        "check",
        "check",
        "Describe a model and report whether it is supported.",
        ("afterglow check digits.onnx",),
    ),
    "compile": Verb(
        "compile",
        "compile_command",
        "Compile a model; show its memory and compile time.",
        (
            "afterglow compile digits.onnx -o digits.agc",
            "afterglow compile digits.onnx -o bundle/ --embed-weights",
        ),
    ),
    "devices": Verb(
        "devices",
        "devices",
        "List what models can run on, and how fast it is.",
        ("afterglow devices",),
    ),
    "dump": Verb(
        "dump",
        "dump",
        "Print a model at any stage of the compiler.",
        ("afterglow dump digits.onnx --stage instructions --origins",),
    ),
    "explain": Verb(
        "explain",
        "explain",
        "Show a model's memory plan and its choice of algorithms.",
        (
            "afterglow explain digits.onnx",
            "afterglow explain digits.onnx --memory memory.svg",
        ),
    ),
    "generate": Verb(
        "generate",
        "generate",
        "Generate text with a language model.",
        ("afterglow generate model.gguf --prompt 'once upon' -n 16",),
    ),
    "help": Verb(
        "help",
        "help_command",
        "Show the help of the command, or of one of these.",
        ("afterglow help run",),
    ),
    "info": Verb(
        "info",
        "info",
        "Show what a file holds and needs, without running it.",
        (
            "afterglow info digits.onnx",
            "afterglow info digits.agc",
        ),
    ),
    "profile": Verb(
        "profile",
        "profile_command",
        "Show where the time of a run goes.",
        (
            "afterglow profile digits.onnx --by node",
            "afterglow profile digits.onnx --threads 2 --trace trace.json",
        ),
    ),
    "quantize": Verb(
        "quantize",
        "quantize",
        "Profile the values of a model on samples.",
        ("afterglow quantize digits.onnx --data images.npz --limit 10",),
    ),
    "run": Verb(
        "run",
        "run",
        "Run a model, and compare its outputs.",
        (
            "afterglow run digits.onnx",
            "afterglow run digits.agc --repeat 10",
        ),
    ),
    "targets": Verb(
        "targets",
        "targets",
        "List the machines that code can be generated for.",
        ("afterglow targets",),
    ),
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
