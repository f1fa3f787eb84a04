"""A whole model on an emulated machine, called as a C program would call its bundle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.bundle.build import BundleOptions, Planned, build_bundle
from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.reference import reference_outputs
from afterglow.backends.cpu.llvm.compile import compile_module
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.types import Array
from tests.emulation.make import make_machine

NAME = "model"


def bundle_of(source: Any, target_name: str, *, small: bool = False) -> BundleCode:
    """A bundle of a model, which needs nothing from anywhere."""
    stages = Stages(Options(target=target_name))
    module, _ = open_source(source).load(stages.options)
    inputs = tuple(value.name for value in module.main.inputs)
    outputs = tuple(output.name for output in module.main.outputs)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    expected = reference_outputs(program, None, compile_module)
    planned = Planned(program, inputs, outputs, NAME, expected)
    options = BundleOptions(freestanding=True, small=small)
    return build_bundle(NAME, [planned], Target.of(target_name), options)


class EmulatedModel:
    """A bundle, loaded into a machine that emulates its target."""

    def __init__(self, bundle: BundleCode) -> None:
        self.bundle = bundle
        self.entry = bundle.entries[0]
        exports = [f"{NAME}_run", f"{NAME}_self_check"]
        self.machine = make_machine([bundle.object], exports, bundle.target)
        weights = bundle.weights.tobytes()
        self.weights = self.machine.allocate(len(weights), bundle.alignment)
        self.machine.write(self.weights, weights)
        self.arena = self.machine.allocate(self.entry.layout.size, bundle.alignment)
        interface = self.entry.interface
        ports = (*interface.inputs, *interface.outputs, *interface.states)
        self._places = [self.machine.allocate(port.type.nbytes) for port in ports]
        for place, port in list(zip(self._places, ports, strict=True))[-len(interface.states) :]:
            self.machine.write(place, bytes(port.type.nbytes))
        word = bundle.target.pointer_bits // 8
        self.io = self.machine.allocate(len(ports) * word)
        self.machine.write(self.io, b"".join(p.to_bytes(word, "little") for p in self._places))

    def run_status(self, inputs: Sequence[Array]) -> int:
        """Run it once; the status."""
        for place, array in zip(self._places, inputs, strict=False):
            self.machine.write(place, np.ascontiguousarray(array).tobytes())
        return self.machine.call(f"{NAME}_run", self.io, self.arena, self.weights)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run it once."""
        status = self.run_status(inputs)
        assert status == 0, f"status {status}"
        interface = self.entry.interface
        results = []
        for place, port in zip(
            self._places[len(interface.inputs) :], interface.outputs, strict=False
        ):
            data = self.machine.read(place, port.type.nbytes)
            results.append(np.frombuffer(data, port.type.dtype.numpy).reshape(port.type.shape))
        return results

    def self_check(self) -> int:
        """Have it check itself; the status."""
        memory = self.machine.allocate(self.entry.self_check_bytes, self.bundle.alignment)
        return self.machine.call(f"{NAME}_self_check", self.arena, self.weights, memory)
