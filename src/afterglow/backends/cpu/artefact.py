"""A program compiled for a machine: everything that is needed to run it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from afterglow.backends.cpu.calls import Segment, group_calls
from afterglow.backends.cpu.codegen import Generated, generate
from afterglow.backends.cpu.compile import compile_module
from afterglow.backends.cpu.emitter import Module
from afterglow.backends.cpu.image import FilePart, Image, link
from afterglow.backends.cpu.pool import link_pool, pool_module, write_run_alone
from afterglow.backends.cpu.target import Target
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.graph import Array
from afterglow.instr import Interface, Program

Compile = Callable[[Module, Target], bytes]
"""From a module to its object code: `compile_module`, or something that remembers."""

WORK_TO_SHARE = 5e5
"""FLOPs of a run below which waking other threads costs more than they save."""


@dataclass(frozen=True)
class Native:
    """A part of a program that runs as machine code: its main function, steps, and FLOPs.

    `instructions` are the places in the program's body of what it does.
    """

    main: str
    steps: int
    work: float
    instructions: tuple[int, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether several threads are worth it."""
        return self.work >= WORK_TO_SHARE


@dataclass(frozen=True)
class Host:
    """An instruction that the host runs, by its place in the program's body."""

    index: int


@dataclass(frozen=True)
class Artefact:
    """A compiled program. Its parts run in order: machine code, and instructions for the host.

    The program itself is needed only for those.
    """

    target: Target
    interface: Interface
    image: Image
    constants: Array
    parts: tuple[Native | Host, ...]
    arena_bytes: int
    workspace_bytes: int
    scratch_bytes: int
    host_constants: Mapping[str, int] = field(default_factory=dict)
    """Where the constants lie that the host reads, by name."""
    pool: Image | None = None
    """The code of a pool of threads, for a process that has none yet."""
    program: Program | None = None
    code_file: FilePart | None = None
    """Where the code lies in a file, if it does."""

    @property
    def uses_host(self) -> bool:
        """Whether some of it runs on the host."""
        return any(isinstance(part, Host) for part in self.parts)


def build(
    program: Program,
    target: Target,
    compiled: Compile = compile_module,
    *,
    apart: bool = False,
    policy: Policy = DEFAULT,
) -> Artefact:
    """Compile a planned program; `apart`, each instruction has a main function of its own."""
    generated = generate(program, target, apart=apart, policy=policy)
    main = generated.main
    assert main is not None
    write_run_alone(main)
    objects = compile_all(generated.modules, target, compiled)
    return Artefact(
        target=target,
        interface=Interface.of(program),
        image=link(objects, main.exports),
        constants=generated.constants.block(),
        parts=_parts(generated),
        arena_bytes=program.arena_bytes or 0,
        workspace_bytes=generated.workspace_bytes,
        scratch_bytes=generated.scratch_bytes,
        host_constants=generated.host_constants,
        pool=link_pool(pool_module(target), compiled),
        program=program,
    )


def compile_all(modules: Sequence[Module], target: Target, compiled: Compile) -> list[bytes]:
    """The object code of each module, made by as many threads as there are cores."""
    with ThreadPoolExecutor(max_workers=max(1, Target.host().cores)) as executor:
        return list(executor.map(lambda module: compiled(module, target), modules))


def _parts(generated: Generated) -> tuple[Native | Host, ...]:
    places = {step: index for index, step in enumerate(generated.program.body)}
    parts: list[Native | Host] = []
    for part in generated.parts:
        if isinstance(part, Segment):
            number = sum(isinstance(earlier, Native) for earlier in parts)
            work = sum(call.function.work for call in part.calls)
            steps = len(group_calls(part.calls))
            done = tuple(dict.fromkeys(places[origin] for origin in part.origins))
            parts.append(Native(f"main_{number}", steps, work, done))
        else:
            parts.append(Host(places[part]))
    return tuple(parts)
