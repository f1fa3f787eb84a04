"""The kernel harness on an emulated machine, for many kernels at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.constants import Constants
from afterglow.backends.cpu.codegen.write import can_write
from afterglow.backends.cpu.micro.kernel import (
    Alarm,
    Kernel,
    Operand,
    Packed,
    Parameter,
    Table,
    Workspace,
)
from afterglow.instr import Buffer
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, best_kernel
from tests.emulation.machine import Machine
from tests.emulation.make import make_machine


class EmulatedBench(Bench):
    """As `Bench`, but the kernel runs on a machine that is not here."""

    def run(self, pieces: int = 1) -> list[Array]:
        """Run the kernel, its units in so many pieces, the last piece first; the stored results."""
        kernel = self.kernel()
        return self.run_on(machine_with([kernel], self.target), kernel, pieces)

    def kernel(self) -> Kernel:
        """The kernel of all steps."""
        job = self.job()
        assert can_write(job), f"no kernel for {job.key}"
        return best_kernel(job, self.target)

    def run_on(self, machine: Machine, kernel: Kernel, pieces: int = 1) -> list[Array]:
        """Run the kernel on a machine that has it; the stored results."""
        addresses = {b: _place(machine, array) for b, array in self.memory.items()}
        workspaces = {
            name: machine.allocate(storage.nbytes)
            for name, storage in kernel.needs.workspace.items()
        }
        for function in kernel.functions:
            places = [
                _address(machine, kernel, p, addresses, workspaces) for p in function.parameters
            ]
            borders = [piece * function.units // pieces for piece in range(pieces + 1)]
            for begin, end in reversed(list(itertools.pairwise(borders))):
                scratch = machine.allocate(function.scratch_bytes)
                machine.call(function.symbol, scratch, begin, end, *places)
        for buffer, address in addresses.items():
            array = self.memory[buffer]
            data = machine.read(address, array.nbytes)
            array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)
        return [self._array(b) for b in self._stored()]


def machine_with(kernels: Sequence[Kernel], target: Target) -> Machine:
    """A machine that has the code of kernels."""
    modules = {kernel.name: kernel.module for kernel in kernels}.values()
    objects = [compile_module(module, target) for module in modules]
    exports = [symbol for module in modules for symbol in module.exports]
    return make_machine(objects, exports, target, watched=True)


def _address(
    machine: Machine,
    kernel: Kernel,
    parameter: Parameter,
    addresses: dict[Buffer, int],
    workspaces: dict[str, int],
) -> int:
    match parameter:
        case Operand(number):
            buffer = kernel.job.buffers[number]
            return addresses[buffer] + buffer.start * buffer.type.dtype.itemsize
        case Packed(number):
            constants = Constants()
            constants.packed(kernel.job.buffers[number], parameter)
            return _place(machine, constants.block(), 64)
        case Table(data):
            return _place(machine, data, 64)
        case Alarm():
            return _place(machine, np.zeros(2, np.int64))
        case Workspace(name):
            return workspaces[name]


def _place(machine: Machine, array: Array, align: int = 8) -> int:
    """Put an array into the machine's memory."""
    data = np.ascontiguousarray(array).tobytes()
    address = machine.allocate(len(data), align)
    machine.write(address, data)
    return address
