"""The interpreter as a device: programs run by the definitions of their ops."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.interpreter.machine import Machine
from afterglow.backends.interpreter.stored import restore_program, store_program
from afterglow.instr import Program, interface_of
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceInfo, LoadOptions
from afterglow.runtime.native.device import host_info
from afterglow.types import MemoryPlan, TensorType

DEVICE = "interpreter"
BANDWIDTH = 2e9
"""Bytes a second that definitions of ops read and write, about."""
FLOPS = 1e10
"""Floating-point operations a second of NumPy's products, about."""
STEP_SECONDS = 2e-5
"""What calling the definition of an op takes, about."""


def to_artifact(program: Program, plan: MemoryPlan, *, unchecked: bool) -> Artifact:
    """A planned program for the interpreter, as data."""
    manifest, sections = store_program(program, program.body, program.constants)
    manifest["unchecked"] = unchecked
    return Artifact(DEVICE, interface_of(program), plan, manifest, sections)


class InterpreterDevice:
    """Runs programs by the definitions of their ops, with NumPy, in the host's memory."""

    name = DEVICE

    def describe(self) -> DeviceInfo:
        """The host, as far as NumPy can use it."""
        info = host_info(self.name, "NumPy on the host", DEVICE)
        return replace(info, bandwidth=BANDWIDTH, flops=FLOPS, launch_seconds=STEP_SECONDS)

    def identity(self) -> str:
        """Nothing: programs are the same everywhere."""
        return ""

    def load(self, artifact: Artifact, options: LoadOptions | None = None) -> Machine:
        """Read the program."""
        program = restore_program(artifact.manifest, artifact.sections)
        return Machine(program, unchecked=artifact.manifest["unchecked"])

    def allocate(self, type: TensorType) -> HostBuffer:
        """A buffer of zeros in the host's memory."""
        return HostBuffer(type)
