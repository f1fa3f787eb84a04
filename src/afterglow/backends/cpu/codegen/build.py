"""Building: from a planned program to a compiled and linked artefact."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from afterglow.backends.cpu.codegen.calls import work_of_calls
from afterglow.backends.cpu.codegen.constants import Write
from afterglow.backends.cpu.codegen.generate import Generated, generate
from afterglow.backends.cpu.codegen.pool import PoolInBackground, pool_image
from afterglow.backends.cpu.codegen.step_names import step_names
from afterglow.backends.cpu.codegen.steps import Segment
from afterglow.backends.cpu.link import link
from afterglow.backends.cpu.llvm.compile import Compile, compile_module
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.threads import write_run_alone
from afterglow.backends.interpreter.hosted import HostedProgram
from afterglow.instr import Program, interface_of
from afterglow.runtime.native.program import Host, Native, NativeProgram
from afterglow.support.hand_over import quick_hand_over


def build(
    program: Program,
    target: Target,
    compiled: Compile = compile_module,
    *,
    apart: bool = False,
    by_instruction: bool = False,
    unchecked: bool = False,
    pool: PoolInBackground | None = None,
) -> NativeProgram:
    """Compile a planned program.

    `apart`, each instruction has a main function of its own; `by_instruction`, steps of its own.
    The code of the thread pool is made with the rest, unless a `pool` is under way.
    """
    with quick_hand_over(), _Compiling(target, compiled) as compiling:
        image = pool.image if pool else partial(pool_image, target, compiled)
        pool_code = compiling.executor.submit(image)
        generated = generate(
            program,
            target,
            apart=apart,
            by_instruction=by_instruction,
            unchecked=unchecked,
            interruptible=True,
            written=compiling.begin,
        )
        main = generated.main
        assert main is not None
        write_run_alone(main)
        main.is_plain = True
        objects = compiling.objects(generated.modules, generated.constants.writes())
    parts = _parts(generated)
    hosted = tuple(part.index for part in parts if isinstance(part, Host))
    return NativeProgram(
        needs=target.needs,
        interface=interface_of(program),
        image=link(objects, main.exports),
        constants=generated.constants.block(),
        parts=parts,
        arena_bytes=program.arena_bytes or 0,
        scratch_bytes=generated.scratch_bytes,
        checks=tuple(generated.checks),
        pool=pool_code.result(),
        may_run_long=generated.may_run_long,
        step_text="\n".join(_one_line(n) for n in step_names(generated.segments)).encode(),
        host=_hosted(generated, hosted, unchecked) if hosted else None,
    )


def _hosted(generated: Generated, steps: tuple[int, ...], unchecked: bool) -> HostedProgram:
    """What the host runs."""
    return HostedProgram(generated.program, steps, generated.host_constants, unchecked=unchecked)


def _one_line(name: str) -> str:
    return " ".join(name.split())


class _Compiling:
    """Modules that threads compile, one for each core, while others are still written."""

    def __init__(self, target: Target, compiled: Compile) -> None:
        self.executor = ThreadPoolExecutor(max_workers=max(1, Target.host().cores))
        self.compile = lambda module: compiled(module, target)
        self.begun: dict[Module, Future[bytes]] = {}

    def __enter__(self) -> _Compiling:
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.shutdown(cancel_futures=True)

    def begin(self, module: Module) -> None:
        """Have a module compiled, which is written."""
        if module not in self.begun:
            self.begun[module] = self.executor.submit(self.compile, module)

    def objects(self, modules: Sequence[Module], writes: Sequence[Write]) -> list[bytes]:
        """The object code of each module; constants are written meanwhile."""
        for module in modules:
            self.begin(module)
        written = [self.executor.submit(write) for write in writes]
        for write in written:
            write.result()
        return [self.begun[module].result() for module in modules]


def _parts(generated: Generated) -> tuple[Native | Host, ...]:
    places = {step: index for index, step in enumerate(generated.program.body)}
    parts: list[Native | Host] = []
    for part in generated.parts:
        if isinstance(part, Segment):
            number = sum(isinstance(earlier, Native) for earlier in parts)
            work = work_of_calls(part.calls)
            done = tuple(dict.fromkeys(places[origin] for origin in part.origins))
            steps = tuple(places[origins[0]] for origins in part.origins_of_steps)
            parts.append(Native(f"main_{number}", len(steps), work, done, steps))
        else:
            parts.append(Host(places[part]))
    return tuple(parts)
