"""Building: from a planned program to a compiled and linked artefact."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from afterglow.backends.cpu.codegen.calls import Segment, group_calls, work_of_calls
from afterglow.backends.cpu.codegen.generate import Generated, generate
from afterglow.backends.cpu.codegen.pool import pool_image
from afterglow.backends.cpu.codegen.step_names import step_names
from afterglow.backends.cpu.link import link
from afterglow.backends.cpu.llvm.compile import Compile, compile_module
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.threads import write_run_alone
from afterglow.backends.interpreter.hosted import HostedProgram
from afterglow.instr import Program, interface_of
from afterglow.runtime.native.program import Host, Native, NativeProgram


def build(
    program: Program,
    target: Target,
    compiled: Compile = compile_module,
    *,
    apart: bool = False,
    unchecked: bool = False,
) -> NativeProgram:
    """Compile a planned program; `apart`, each instruction has a main function of its own."""
    generated = generate(program, target, apart=apart, unchecked=unchecked, interruptible=True)
    main = generated.main
    assert main is not None
    write_run_alone(main)
    main.is_plain = True
    objects = compile_all(generated.modules, target, compiled)
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
        pool=pool_image(target, compiled),
        may_run_long=generated.may_run_long,
        step_text="\n".join(_one_line(n) for n in step_names(generated.segments)).encode(),
        host=_hosted(generated, hosted, unchecked) if hosted else None,
    )


def _hosted(generated: Generated, steps: tuple[int, ...], unchecked: bool) -> HostedProgram:
    """What the host runs."""
    return HostedProgram(generated.program, steps, generated.host_constants, unchecked=unchecked)


def _one_line(name: str) -> str:
    return " ".join(name.split())


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
            work = work_of_calls(part.calls)
            steps = len(group_calls(part.calls))
            done = tuple(dict.fromkeys(places[origin] for origin in part.origins))
            parts.append(Native(f"main_{number}", steps, work, done))
        else:
            parts.append(Host(places[part]))
    return tuple(parts)
