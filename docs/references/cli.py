"""The page of all commands with their options, as `--help` shows them."""

from __future__ import annotations

import inspect
from collections import Counter

import click

from afterglow.cli.main import cli
from afterglow.cli.verbs import VERBS
from references.markdown import cell, table

COMMON = 5
"""An option that means the same in as many commands is described once."""
HEAD = """\
# Commands and options

Generated from the code: what `afterglow COMMAND --help` shows. [The command line](cli.md) is the
guide: exit status, binding dimensions, output files, examples.
"""


def cli_page() -> str:
    """A section for each command, and one for the options that most of them have."""
    context = click.Context(cli, info_name="afterglow")
    commands = {name: cli.get_command(context, name) for name in VERBS}
    found = {name: c for name, c in commands.items() if c is not None}
    rows = {name: [_row(o) for o in _options(c)] for name, c in found.items()}
    counts = Counter(row for own in rows.values() for row in own)
    common = [row for row, count in counts.items() if count >= COMMON]
    lines = [HEAD, *table(("command", "what it does"), _contents()), ""]
    for name, command in found.items():
        lines += _section(name, command, rows[name], common)
    lines += ["## Common options", "", f"What means the same in {COMMON} or more commands.", ""]
    return "\n".join([*lines, *table(("option", "meaning"), common), ""])


def _contents() -> list[tuple[str, str]]:
    return [(f"[`{name}`](#{name})", verb.summary) for name, verb in VERBS.items()]


def _section(
    name: str, command: click.Command, rows: list[tuple[str, str]], common: list[tuple[str, str]]
) -> list[str]:
    context = click.Context(command, info_name=f"afterglow {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"## {name}", "", "```text", f"afterglow {name} {usage}", "```", "", *_help(command)]
    own = [row for row in rows if row not in common]
    shared = [f"`{row[0].split('`')[1].split(',')[0].split()[0]}`" for row in rows if row in common]
    if own:
        lines += [*table(("option", "meaning"), own), ""]
    if shared:
        lines += [f"[Common options](#common-options): {', '.join(shared)}.", ""]
    return lines


def _help(command: click.Command) -> list[str]:
    r"""The description, in which click's mark `\b` keeps lines as they are."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        kept = paragraph.lstrip().startswith("\b")
        text = paragraph.replace("\b\n", "")
        lines += ["```text", text.strip("\n"), "```", ""] if kept else [text, ""]
    return lines


def _options(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option) and not p.hidden]


def _row(option: click.Option) -> tuple[str, str]:
    context = click.Context(click.Command("any"))
    spelled, meaning = option.get_help_record(context) or ("", "")
    return f"`{cell(spelled)}`".replace("\\|", "|").replace("|", "\\|"), cell(meaning)
