"""From planned programs to a bundle: all code in one object, all weights in one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afterglow.backends.bundling.checksum import checksum
from afterglow.backends.capabilities import BundleExtent
from afterglow.backends.cpu.bundle.code import ArenaLayout, BundleCode, EntryCode
from afterglow.backends.cpu.bundle.entry import EntryWriter
from afterglow.backends.cpu.bundle.join import BundlePart, Joined, asking, join
from afterglow.backends.cpu.bundle.memory import MEMORY_FUNCTIONS, write_memory_functions
from afterglow.backends.cpu.bundle.self_check import SelfCheck, checked_extents
from afterglow.backends.cpu.bundle.survey import survey
from afterglow.backends.cpu.bundle.tables import write_entries, write_step_name
from afterglow.backends.cpu.bundle.weights import (
    SharedConstants,
    Weights,
    write_check_weights,
)
from afterglow.backends.cpu.codegen.generate import Generated, generate, host_steps
from afterglow.backends.cpu.codegen.step_names import step_names
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.llvm.routines import ROUTINES, write_routines
from afterglow.backends.cpu.target import Target
from afterglow.instr import Instr, OpInstr, Program, Stack, interface_of
from afterglow.runtime.native.convention import ALIGNMENT, alarm_bytes
from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

_FUNCTIONS = ("run", "run_team", "self_check", "step_name")
"""How the public symbols of a program end."""
MOST_LISTED = 20
"""Nodes that an error lists."""


@dataclass(frozen=True)
class BundleOptions:
    """Options of a bundle."""

    embed_weights: bool = False
    """Whether the weights are in the object, rather than in a file."""
    freestanding: bool = False
    """Whether not even memcpy, memmove and memset are asked of others."""
    small: bool = False
    """Whether code should be small rather than fast."""
    unchecked: bool = False
    """Whether an index out of range becomes the nearest that is not, rather than an error."""


@dataclass(frozen=True)
class Planned:
    """A program of a bundle, with the model's names of its inputs and outputs, and its symbols."""

    program: Program
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    prefix: str
    expected: Sequence[Array]
    """What it gives for the inputs of the self-check."""


def build_bundle(
    name: str,
    programs: Sequence[Planned],
    target: Target,
    options: BundleOptions,
    extents: Sequence[BundleExtent] = (),
) -> BundleCode:
    """Compile programs for a target into one object; the public symbols begin with the name.

    `extents` tell several programs apart.
    """
    constants = SharedConstants()
    generated = [
        generate(p.program, target, constants=constants, unchecked=options.unchecked)
        for p in programs
    ]
    block = constants.block() if constants.size else np.zeros(ALIGNMENT, np.uint8)
    weights = Weights(name, block.nbytes, embedded=options.embed_weights)
    entries = [
        _write_entry(planned, code, weights)
        for planned, code in zip(programs, generated, strict=True)
    ]
    common = _write_common(Module(target), weights, block, name, options)
    if len(entries) > 1:
        write_entries(common, name, entries, extents, weights.embedded)
    joined = _join(generated, common, entries, weights, options)
    found = survey(joined.object)
    while found is not None and write_routines(common, found.undefined):
        joined = _join(generated, common, entries, weights, options)
        found = survey(joined.object)
    size = len(joined.object) if found is None else found.size
    return BundleCode(
        name=name,
        target=target,
        object=joined.object,
        code_bytes=size - (weights.size if weights.embedded else 0),
        weights=block,
        checksum=checksum(block),
        embedded=weights.embedded,
        freestanding=options.freestanding,
        entries=tuple(
            replace(entry, stack_bytes=joined.stack.of(f"{entry.prefix}_self_check"))
            for entry in entries
        ),
        extents=tuple(extents),
    )


def refuse_host_steps(program: Program) -> None:
    """Raise for a program of which a host would have to run some steps."""
    steps = host_steps(program)
    if not steps:
        return
    lines = [f"{_shown(instruction)}: {reason}" for instruction, reason in steps]
    more = [f"and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    raise UnsupportedError(
        f"a bundle has no host to run {len(steps)} nodes of the model",
        excerpt=[*lines[:MOST_LISTED], *more],
        help="compile the part of the model that computes with numbers",
    )


def _shown(instruction: Instr) -> str:
    steps = instruction.body if isinstance(instruction, Stack) else (instruction,)
    shown = [f"{s.op.mnemonic} ({s.origin})" for s in steps if isinstance(s, OpInstr)]
    return ", ".join(shown) or type(instruction).__name__.lower()


def _write_entry(planned: Planned, generated: Generated, weights: Weights) -> EntryCode:
    """Write the public functions of a program beside its main function."""
    program, module = planned.program, generated.main
    assert module is not None
    interface = interface_of(program)
    layout = ArenaLayout.of(
        program.arena_bytes or 0, generated.scratch_bytes, alarm_bytes(len(generated.checks))
    )
    weights.declare(module)
    extents = checked_extents(interface)
    check = SelfCheck(
        *(module, planned.prefix, interface.bind(extents), [*extents.values()]),
        *(weights, planned.expected),
    )
    has_main, ports = bool(generated.segments), len(interface.ports)
    writer = EntryWriter(module, planned.prefix, ports, layout, weights, has_main, interface.dims)
    run = writer.write_run()
    writer.write_run_team()
    check.write(run)
    steps = step_names(generated.segments)
    write_step_name(module, planned.prefix, steps)
    return EntryCode(
        prefix=planned.prefix,
        interface=interface,
        input_names=planned.input_names,
        output_names=planned.output_names,
        layout=layout,
        steps=tuple(steps),
        checks=tuple(generated.checks),
        work=sum(call.function.work for s in generated.segments for call in s.calls),
        self_check_bytes=check.offsets[-1],
        stack_bytes=0,
    )


def _write_common(
    module: Module,
    weights: Weights,
    block: Array,
    name: str,
    options: BundleOptions,
) -> Module:
    """What the programs of a bundle share: weights, their check, memory functions."""
    if weights.embedded:
        weights.define(module, block)
    else:
        write_check_weights(module, name, block)
    if options.freestanding:
        write_memory_functions(module)
    return module


def _join(
    generated: Sequence[Generated],
    common: Module,
    entries: Sequence[EntryCode],
    weights: Weights,
    options: BundleOptions,
) -> Joined:
    """One object of all modules."""
    small, target = options.small, common.target
    public = {f"{entry.prefix}_{function}" for entry in entries for function in _FUNCTIONS}
    public |= {*common.exports} - {*MEMORY_FUNCTIONS, *ROUTINES}
    parts = [BundlePart([asking(common.text, small=small)], {*common.exports, weights.symbol})]
    for code in generated:
        texts = [asking(module.text, small=small) for module in code.modules]
        parts.append(BundlePart(texts, public))
    return join(parts, public, target)
