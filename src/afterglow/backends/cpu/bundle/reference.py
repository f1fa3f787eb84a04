"""The numbers that a program computes, as a self-check stores them.

They come from code for the least machine of this architecture, so that they are the same on all
machines that compile the model; a bundle for a named target is then the same too.
"""

from __future__ import annotations

from afterglow.backends.cpu.bundle.self_check import checked_extents, made_inputs
from afterglow.backends.cpu.codegen.build import build
from afterglow.backends.cpu.llvm.compile import Compile
from afterglow.backends.cpu.target import Target
from afterglow.backends.interpreter import Machine
from afterglow.instr import Program, interface_of
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import Executable
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.types import Array

_LEAST = {"x86": "x86-64", "aarch64": "aarch64"}
"""The least machine of an architecture that code can be run on."""


def reference_target() -> str | None:
    """The smallest target whose code runs on this machine; None if there is none."""
    return _LEAST.get(Target.host().architecture)


def reference_outputs(program: Program, target: str | None, compiled: Compile) -> list[Array]:
    """The outputs of a program for the inputs of the self-check.

    Its states are zero. Without a target the interpreter runs it.
    """
    interface = interface_of(program)
    states = {port.name: HostBuffer(port.type) for port in interface.states}
    executable: Executable = Machine(program, unchecked=True)  # the inputs are made up
    if target is not None:
        code = build(program, Target.of(target), compiled, unchecked=True)
        executable = NativeExecutable(code, threads=1)
    exact = interface.bind(checked_extents(interface))
    for port in exact.states:
        states[port.name].filled = 0 if port.level is None else port.level.before
    return executable.run(made_inputs(exact), states)
