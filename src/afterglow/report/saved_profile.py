"""Profile of a compiled model: the time of each step of its code."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np

from afterglow.backends.interpreter.hosted import HostedProgram
from afterglow.memory.timeline import origin_of, work_of
from afterglow.report.profile import StepTime
from afterglow.runtime import CompiledFunction
from afterglow.runtime.library import LibraryExecutable
from afterglow.runtime.native.artefact import Host
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.runtime.native.memory import empty_bytes
from afterglow.runtime.native.timed_team import TimedTeam
from afterglow.support.errors import UsageError
from afterglow.types import Array

_MAIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def profile_saved(
    compiled: CompiledFunction, inputs: Sequence[Array], repeat: int
) -> list[StepTime]:
    """Run a program `repeat` times on one thread; the time of each step, in program order."""
    names = _names(compiled)
    best = np.full(len(names), np.inf)
    for _ in range(repeat):
        best = np.minimum(best, _run_once(compiled, inputs))
    return [
        StepTime(place, kernel, origin, (), (), float(seconds), 0.0, 0, on_host)
        for place, ((kernel, origin, on_host), seconds) in enumerate(zip(names, best, strict=True))
    ]


def _names(compiled: CompiledFunction) -> list[tuple[str, str, bool]]:
    """For each step its kernels, the nodes they compute, and whether it runs on the host."""
    executable = compiled.executable
    if isinstance(executable, LibraryExecutable):
        return [_split(name) for name in executable.step_names]
    if not isinstance(executable, NativeExecutable):
        raise UsageError("only machine code can be profiled", help="compile it with backend='cpu'")
    artefact = executable.artefact
    names = iter(artefact.step_names)
    found: list[tuple[str, str, bool]] = []
    for part in artefact.parts:
        if isinstance(part, Host):
            assert isinstance(artefact.host, HostedProgram)
            instruction = artefact.host.program.body[part.index]
            found.append((work_of(instruction), origin_of(instruction), True))
        else:
            found.extend(_split(next(names)) for _ in range(part.steps))
    return found


def _split(name: str) -> tuple[str, str, bool]:
    kernels, _, nodes = name.partition(" (")
    return kernels, nodes.removesuffix(")"), False


def _run_once(compiled: CompiledFunction, inputs: Sequence[Array]) -> list[float]:
    """The seconds of each step."""
    executable = compiled.executable
    if isinstance(executable, LibraryExecutable):
        scratch = empty_bytes(executable.scratch_bytes)
        team = TimedTeam(scratch.ctypes.data)
        executable.run_team(inputs, compiled.states, team.address)
        return team.seconds
    assert isinstance(executable, NativeExecutable)
    return _run_native(executable, inputs, compiled.states)


def _run_native(
    executable: NativeExecutable, inputs: Sequence[Array], states: Mapping[str, Array]
) -> list[float]:
    inputs, outputs = executable.prepared(inputs, states), executable.empty_outputs()
    context = executable.take_context(inputs, outputs, states)
    host = executable.start_host(context, inputs, outputs, states)
    team = TimedTeam(context.scratch)
    for part in executable.artefact.parts:
        if isinstance(part, Host):
            started = perf_counter()
            executable.run_part(part, context, host)
            team.seconds.append(perf_counter() - started)
        else:
            main = _MAIN(executable.loaded.addresses[part.main])
            main(context.bases_address, team.address)
    executable.give_back(context)
    return team.seconds
