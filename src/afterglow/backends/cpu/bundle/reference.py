"""The numbers that a program computes, as a self-check stores them.

They come from code for the least machine of this architecture, so that they are the same on all
machines that compile the model; a bundle for a named target is then the same too.
"""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.build import build
from afterglow.backends.cpu.bundle.self_check import made_inputs
from afterglow.backends.cpu.compile import Compile
from afterglow.backends.cpu.target import Target
from afterglow.backends.interpreter import Machine
from afterglow.backends.policy import Policy
from afterglow.instr import Program, interface_of
from afterglow.runtime.executable import Executable
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.types import Array

_LEAST = {"x86": "x86-64", "aarch64": "aarch64"}
"""The least machine of an architecture that code can be run on."""


def reference_outputs(program: Program, compiled: Compile) -> list[Array]:
    """What the program gives for the inputs of the self-check, and states of zero."""
    interface = interface_of(program)
    states = {p.name: np.zeros(p.type.shape, p.type.dtype.numpy) for p in interface.states}
    return _executable(program, compiled).run(made_inputs(interface), states)


def _executable(program: Program, compiled: Compile) -> Executable:
    least = _LEAST.get(Target.host().architecture)
    if least is None:
        return Machine(program, unchecked=True)
    unchecked = Policy(unchecked=True)  # the inputs are made up
    return NativeExecutable(build(program, Target.of(least), compiled, policy=unchecked), threads=1)
