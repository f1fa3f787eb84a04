"""`afterglow compile`: from a file to a planned program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from afterglow.cli.progress import StageClock
from afterglow.cli.report import memory_table, stage_table
from afterglow.cli.request import Request, takes_model
from afterglow.cli.session import Session
from afterglow.cli.texts import write_text
from afterglow.driver.stages import Stages
from afterglow.instr import Instr, OpInstr, Stack, print_program


@click.command("compile", short_help="Compile a model; show its memory and the time it took.")
@takes_model
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the program there.")
def compile_command(session: Session, request: Request, output: Path | None) -> int:
    """Compile MODEL, and say how long each stage took and how much memory it needs.

    With -o, the planned program is written as text: every instruction, every buffer with its
    address. Saving machine code comes with the native backend.
    """
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        module = request.load(request.source())
        compiled = Stages(request.options).finish(module)
        if output is not None:
            clock("write")
            write_text(output, print_program(compiled.program))
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


def _count(body: Sequence[Instr]) -> tuple[int, int]:
    """The instructions that compute ops, and the stacks in which some of them run."""
    stacks = [step for step in body if isinstance(step, Stack)]
    alone = sum(isinstance(step, OpInstr) for step in body)
    return alone + sum(len(stack.body) for stack in stacks), len(stacks)
