"""`afterglow info`: what a file holds and needs, without running any of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from afterglow.cli.session import Session, general_options
from afterglow.cli.verb_command import VerbCommand
from afterglow.runtime.file_info import CompiledInfo, ProgramInfo, compiled_info
from afterglow.support.errors import UsageError
from afterglow.support.regular_file import open_regular
from afterglow.support.tables import table


@click.command(cls=VerbCommand)
@click.argument("file", metavar="FILE")
@general_options
@click.pass_obj
def info(session: Session, file: str) -> int:
    """Show what FILE holds: inputs, outputs, target, memory, digests, and what made it.

    FILE is a compiled model (.agc), a bundle (its folder, its shared library or its description),
    or a model of any format that can be compiled. Checksums are verified. No code of the file is
    run, and a compiled one needs no compiler to be described.

    \b
    Examples:
      afterglow info model.onnx
    """  # noqa: D301  click keeps lines after its mark as they are
    path = Path(file)
    if not path.exists():
        raise UsageError(f"{file}: no such file")
    compiled = compiled_info(path)
    if compiled is None:
        facts: dict[str, Any] = import_module("afterglow.cli.model_info").model_facts(path)
    else:
        facts = _compiled_facts(compiled)
    digests = {} if path.is_dir() else {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    data = {"file": file, **digests, **facts}
    session.answer(data, lambda: _show(session, data))
    return 0


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, as `sha256sum` prints it."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compiled_facts(info: CompiledInfo) -> dict[str, Any]:
    data = asdict(info)
    data["files"] = {p.name: sha256_of(p) for p in info.files} if len(info.files) > 1 else {}
    data["programs"] = [_program_facts(each) for each in info.programs]
    return data


def _program_facts(program: ProgramInfo) -> dict[str, Any]:
    facts = asdict(program)
    facts["runs_here"] = not program.missing and all(not part.missing for part in program.parts)
    facts["parts"] = [_program_facts(part) for part in program.parts]
    return facts


def _show(session: Session, data: Mapping[str, Any]) -> None:
    rows = table("", "")
    for name, text in _lines(data):
        rows.add_row(name, text)
    session.show(rows)
    for program in data.get("programs", ()):
        session.say(f"{program['name']}, on {program['device']}", "bold")
        session.show(_program_table(program))


def _lines(data: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The facts about the whole file, a row each."""
    made = data.get("made") or {}
    yield "file", data["file"]
    yield "kind", f"{data['kind']}, {data['format']}" if data.get("format") else data["kind"]
    if "bytes" in data:
        yield "bytes", f"{data['bytes']:,}"
        yield "sha256", data["sha256"]
    for role in ("inputs", "outputs"):
        yield role, "\n".join(data[role])
    for name, text in data.get("facts", {}).items():
        yield name, text
    if made.get("afterglow"):
        yield "compiled by", f"afterglow {made['afterglow']}"
    for file in made.get("files", ()):
        yield "compiled from", f"{file['name']}, sha256 {file['sha256'] or 'not known'}"
    for name, text in (made.get("options") or {}).items():
        yield f"option {name}", text
    for name, digest in (data.get("files") or {}).items():
        yield f"sha256 of {name}", digest
    if data.get("needs_compiler"):
        yield "needs", "the compiler: some of it is compiled as it runs"


def _program_table(program: Mapping[str, Any]) -> Table:
    rows = table("", "")
    for role in ("inputs", "outputs"):
        rows.add_row(role, "\n".join(program[role]))
    if program["target"]:
        here = (
            "runs here" if program["runs_here"] else f"lacks here: {', '.join(program['missing'])}"
        )
        rows.add_row("target", f"{program['target']} ({here})")
        rows.add_row("CPU features", ", ".join(program["features"]) or "none beyond the baseline")
    for name, field in (
        ("arena", "arena_bytes"),
        ("scratch, each thread", "scratch_bytes"),
        ("weights", "weight_bytes"),
        ("code", "code_bytes"),
        ("state", "state_bytes"),
    ):
        rows.add_row(name, f"{program[field]:,} B")
    for part in program["parts"]:
        memory = f"arena {part['arena_bytes']:,} B, weights {part['weight_bytes']:,} B"
        rows.add_row(f"partition {part['name']}", f"on {part['device']}: {memory}")
    return rows
