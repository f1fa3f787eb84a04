"""`afterglow compile`: from a file to code, saved if that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from afterglow.cli.bundle import BundleFlags, takes_bundle_flags, write_to_folder
from afterglow.cli.destination import (
    COMPILED,
    ONNX,
    Destination,
    compiled_place,
    takes_force,
)
from afterglow.cli.each import refuse_lists
from afterglow.cli.exported import write_onnx
from afterglow.cli.partitioned import compile_partitioned
from afterglow.cli.progress import StageClock
from afterglow.cli.report import memory_table, stage_table
from afterglow.cli.request import Request, takes_model, takes_state
from afterglow.cli.session import Session
from afterglow.cli.verb_command import VerbCommand
from afterglow.driver.backends import compile_module
from afterglow.driver.compile import Recipe, beyond_bounds
from afterglow.driver.made import made_from
from afterglow.driver.sources import Source
from afterglow.frontends.base import NeedsValuesError
from afterglow.instr import OpInstr, Stack, print_program
from afterglow.runtime import CompiledFunction
from afterglow.runtime.model import CompiledModel
from afterglow.runtime.saved import save_versions
from afterglow.runtime.version import Version
from afterglow.support.errors import AfterglowError, MemoryLimitError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import unwritable
from afterglow.support.tables import table


@dataclass(frozen=True)
class Built:
    """A compiled version of a model, the extents it is for, and its instruction counts."""

    version: Version
    dims: dict[str, int]
    instructions: int
    stacks: int

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        compiled = self.version.compiled
        unshared = {"unshared_arena_bytes": compiled.plan.total_bytes}
        return {
            "instructions": self.instructions,
            "stacks": self.stacks,
            "memory": {**asdict(compiled.memory), **unshared},
        }


@click.command("compile", cls=VerbCommand)
@takes_model
@takes_bundle_flags
@click.option("-o", "--output", metavar="FILE|FOLDER", help="Write the result there.")
@takes_state
@takes_force
def compile_command(
    session: Session,
    request: Request,
    output: str | None,
    force: bool,
    flags: BundleFlags,
) -> int:
    """Compile MODEL; show the time of each stage and the memory that the result needs.

    -o FILE.agc saves the compiled model, for afterglow.load. -o FILE.txt writes the planned
    program as text, with every instruction and the address of every buffer. -o FILE.onnx writes
    the optimised graph, quantized by --profile, for other engines. -o FOLDER writes a bundle for
    the target: an object file and a header that a C program links; end the name with a slash if it
    contains a dot. If --dim lists several extents, all of them are compiled, and saved together.

    \b
    Examples:
      afterglow compile model.onnx -o model.agc
      afterglow compile model.onnx --dim seq=1..512 -o model.agc
      afterglow compile model.onnx --target cortex-m4 -o firmware
    """  # noqa: D301  click keeps lines after its mark as they are
    place = compiled_place(output, flags.given, request.path, force=force)
    if isinstance(place, Path):
        return write_to_folder(session, request, place, flags, force=force)
    if place is not None and place.kind is ONNX:
        refuse_lists(request, "an ONNX model")
        return write_onnx(session, request, place)
    if place is not None and place.kind is not COMPILED:
        refuse_lists(request, "a program as text")
        return _compile(session, request, place)
    try:
        return _compile(session, request, place)
    except NeedsValuesError as error:
        return compile_partitioned(session, request, error, None if place is None else place.path)


def _compile(session: Session, request: Request, output: Destination | None) -> int:
    """Compile a model without partitions, for each requested binding of its dimensions."""
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        source = request.source()
        request.dim_options.check_names(request.inputs(source))
        built = [_build(each, source, request) for each in request.bindings()]
        if output is not None:
            clock("write")
            _write(output, request, source, [each.version for each in built])
    data = {
        "model": request.path,
        "backend": request.options.where,
        **_data(built),
        "seconds": clock.seconds,
        "output": None if output is None else str(output.path),
    }
    path = None if output is None else output.path
    session.answer(data, lambda: _show(session, built, clock, path))
    return 0


def _build(request: Request, source: Source, asked: Request) -> Built:
    """Compile the model for one binding of its dimensions."""
    try:
        module, forms = request.load_with_forms(source)
        compiled = compile_module(module, request.options)
    except AfterglowError as error:
        _suggest_list(error, request)
        raise
    dims = {name: request.options.dims[name] for name in asked.dim_options.ahead}
    return Built(Version(compiled, forms), dims, *_count(compiled))


def _suggest_list(error: AfterglowError, request: Request) -> None:
    """Have an error that may be about a range say what to give instead."""
    ranges = request.dim_options.ranges
    if ranges and isinstance(error, MemoryLimitError):
        beyond_bounds(error, ranges)
    dim = next(iter(ranges.values()), None)
    if dim is not None and not error.help:
        error.help = f"list extents instead, such as --dim {dim.name}={dim.high}"


def _count(compiled: CompiledFunction) -> tuple[int, int]:
    """The number of instructions that compute ops, and of stacks that group some of them."""
    body = [step for program in compiled.programs for step in program.body]
    stacks = [step for step in body if isinstance(step, Stack)]
    alone = sum(isinstance(step, OpInstr) for step in body)
    return alone + sum(len(stack.body) for stack in stacks), len(stacks)


def _write(
    output: Destination, request: Request, source: Source, versions: Sequence[Version]
) -> None:
    path = output.path
    assert path is not None
    if output.kind is not COMPILED:
        output.write_text(print_program(versions[0].compiled.program))
        return
    try:
        if not request.dim_options.ahead:
            made = made_from(source.files(), request.options)
            save_versions(path, versions[0].signature, versions[0], made=made)
            return
        model = CompiledModel(
            source.signature(request.options), Recipe(source, request.options), None
        )
        for version in versions:
            model.keep(version, version.input_shapes)
        model.save(path, force=True)
    except OSError as error:
        raise unwritable(path, error) from None


def _data(built: Sequence[Built]) -> dict[str, Any]:
    if len(built) == 1:
        return built[0].data()
    return {"versions": [{"dims": each.dims, **each.data()} for each in built]}


def _show(session: Session, built: Sequence[Built], clock: StageClock, output: Path | None) -> None:
    session.show(stage_table(clock.seconds))
    wrote = "" if output is None else f", written to {output}"
    if len(built) > 1:
        session.show(_version_table(built))
        session.say(f"{len(built)} versions{wrote}")
        return
    compiled = built[0].version.compiled
    session.show(memory_table(compiled.memory, compiled.plan.total_bytes))
    session.say(f"{built[0].instructions} instructions, {built[0].stacks} stacks{wrote}")


def _version_table(built: Sequence[Built]) -> Table:
    """The memory of each version, with the extents that it is for."""
    numbers = (*built[0].dims, "instructions", "arena", "scratch", "weights", "code")
    rows = table(*numbers, right=numbers)
    for each in built:
        memory = each.version.compiled.memory
        sizes = (memory.arena_bytes, memory.thread_bytes, memory.weight_bytes, memory.code_bytes)
        counts = (*each.dims.values(), each.instructions, *sizes)
        rows.add_row(*(f"{count:,}" for count in counts))
    return rows
