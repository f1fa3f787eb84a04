"""`afterglow compile`: from a file to code, saved if that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from afterglow.cli.bundle import BundleFlags, takes_bundle_flags, write_to_folder
from afterglow.cli.progress import StageClock
from afterglow.cli.report import memory_table, stage_table
from afterglow.cli.request import Request, takes_model
from afterglow.cli.session import Session
from afterglow.cli.texts import unwritable, write_text
from afterglow.driver.stages import Stages
from afterglow.instr import Instr, OpInstr, Stack, print_program
from afterglow.runtime.saved import save_versions
from afterglow.runtime.version import Version
from afterglow.support.errors import UsageError

TEXTS = (".txt", ".agi")
"""How the names of files end that the planned program is written to, as text."""


@click.command("compile", short_help="Compile a model; show its memory and the time it took.")
@takes_model
@takes_bundle_flags
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Save it there.")
def compile_command(
    session: Session, request: Request, output: Path | None, flags: BundleFlags
) -> int:
    """Compile MODEL, and say how long each stage took and how much memory it needs.

    With -o FILE.agc the compiled model is saved, for afterglow.load. With -o FILE.txt the planned
    program is written as text: every instruction, every buffer with its address. With -o FOLDER it
    becomes a bundle for the target: an object file and a header that a C program links.
    """
    if output is not None and (output.suffix == "" or output.is_dir() or flags.any_given):
        return write_to_folder(session, request, output, flags)
    if flags.any_given:
        raise UsageError("options of a bundle need a folder for it", help="add -o FOLDER")
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        module, forms = request.load_with_forms(request.source())
        compiled = Stages(request.options).finish(module)
        if output is not None:
            clock("write")
            _write(output, Version(compiled, forms))
    total = compiled.plan.total_bytes
    instructions, stacks = _count(compiled.program.body)
    data = {
        "model": request.path,
        "backend": request.options.backend,
        "instructions": instructions,
        "stacks": stacks,
        "memory": {**asdict(compiled.memory), "unshared_arena_bytes": total},
        "seconds": clock.seconds,
        "output": None if output is None else str(output),
    }

    def show() -> None:
        session.show(stage_table(clock.seconds))
        session.show(memory_table(compiled.memory, total))
        wrote = "" if output is None else f", written to {output}"
        session.say(f"{instructions} instructions, {stacks} stacks{wrote}")

    session.answer(data, show)
    return 0


def _write(path: Path, version: Version) -> None:
    if path.suffix in TEXTS:
        write_text(path, print_program(version.compiled.program))
        return
    try:
        save_versions(path, version.signature, [version], is_static=True)
    except OSError as error:
        raise unwritable(path, error) from None


def _count(body: Sequence[Instr]) -> tuple[int, int]:
    """The instructions that compute ops, and the stacks in which some of them run."""
    stacks = [step for step in body if isinstance(step, Stack)]
    alone = sum(isinstance(step, OpInstr) for step in body)
    return alone + sum(len(stack.body) for stack in stacks), len(stacks)
