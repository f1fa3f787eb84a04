"""Loading the shared library of a bundle back into Python."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.runtime.buffers import HostExecutable, host_array
from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.device import DeviceBuffer, Footprint, StepName
from afterglow.runtime.donation import donatable
from afterglow.runtime.extents import ExtentReader
from afterglow.runtime.library_file import check_library
from afterglow.runtime.native.convention import alarm_bytes
from afterglow.runtime.native.executable import address_of
from afterglow.runtime.native.machine import Needs, architecture_of, check_runs_here
from afterglow.runtime.native.memory import empty_bytes
from afterglow.runtime.native.program import CheckedIndex, parsed_step, raise_alarm
from afterglow.runtime.native.status import Status
from afterglow.runtime.native.timed_team import TimedTeam
from afterglow.runtime.version import Version
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, FillLevel, Interface, MemoryPlan, Port, TensorType
from afterglow.types.dtype import DTYPES
from afterglow.types.extent import Dim
from afterglow.types.extent.text import read_shape
from afterglow.types.output_form import tensor_forms
from afterglow.types.quantization import read_quantization

FORMAT = 4
"""Counts changes of the description of a bundle that readers must know about."""
SUFFIXES = (".so", ".dylib", ".dll", ".wasm")
"""How shared libraries are called."""


@dataclass(frozen=True)
class LoadedLibrary:
    """The entries of a bundle, and the names of the dimensions in which they differ, by place."""

    entries: list[Version]
    dimensions: dict[tuple[str, int], str]


def load_library(path: Path) -> LoadedLibrary:
    """The entries of a bundle's shared library; its weights lie beside it, unless it has them."""
    check_library(path)
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise UsageError(f"{path} cannot be loaded: {error}") from None
    description = _description(library, path)
    check_runs_here(_needs(description["target"]))
    weights = _weights(library, path, description)
    entries = [_version(library, entry, weights, description) for entry in description["entries"]]
    dimensions = {
        (name, axis): extent["name"]
        for extent in description["extents"]
        for name, axis in extent["places"]
    }
    return LoadedLibrary(entries, dimensions)


def _needs(target: Mapping[str, Any]) -> Needs:
    architecture = architecture_of(target["triple"]) or target["triple"]
    return Needs(target["name"], architecture, tuple(target["features"]))


def _description(library: ctypes.CDLL, path: Path) -> dict[str, Any]:
    name = path.stem.removeprefix("lib")
    describe = getattr(library, f"{name}_describe", None)
    beside = path.with_name(f"{name}.json")
    if describe is not None:
        describe.restype = ctypes.c_char_p
        text = describe()
    elif beside.exists():
        text = beside.read_bytes()
    else:
        raise UsageError(
            f"{path}: the library has no description of a model called {name!r}",
            help=f"keep {name}.json next to it, and do not rename the library",
        )
    try:
        description: dict[str, Any] = json.loads(text)
    except ValueError:
        raise UsageError(f"{path}: the description of the model is damaged") from None
    if description.get("format") != FORMAT:
        raise UsageError(f"{path}: the library was built by another version of Afterglow")
    if description.get("state") is not None:
        listed = ", ".join(entry["prefix"] for entry in description["entries"])
        raise UsageError(
            f"{path}: the library is no single model: it has the functions {listed}",
            help="call them from C, as its header says, or load the saved model",
        )
    return description


def _weights(library: ctypes.CDLL, path: Path, description: Mapping[str, Any]) -> Array | None:
    about = description["weights"]
    if about["embedded"]:
        return None
    file = path.with_name(about["file"])
    try:
        weights = np.memmap(file, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise UsageError(f"the weights of {path} cannot be read: {error}") from None
    check = getattr(library, f"{description['name']}_check_weights")
    check.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    _raise_unless_ok(check(weights.ctypes.data, weights.nbytes), f"{file}")
    return weights


def _raise_unless_ok(status: int, where: str) -> None:
    if status != Status.OK:
        raise UsageError(f"{where}: {Status(status).meaning}")


def _version(
    library: ctypes.CDLL,
    entry: Mapping[str, Any],
    weights: Array | None,
    description: Mapping[str, Any],
) -> Version:
    dims = [Dim(d["name"], d["low"], d["high"], d["step"]) for d in entry["dims"]]
    groups = (entry["inputs"], entry["outputs"], entry["states"])
    interface = Interface(*(tuple(_port(port, dims) for port in ports) for ports in groups))
    planned = entry["planned_bytes"]
    names = [port["name"] for port in entry["outputs"]]
    compiled = CompiledFunction(
        interface,
        MemoryPlan(planned, planned, planned),
        LibraryExecutable(library, entry, interface, weights, description),
        [port["name"] for port in entry["inputs"]],
        names,
    )
    return Version(compiled, tensor_forms(names))


def _port(data: Mapping[str, Any], dims: Sequence[Dim]) -> Port:
    type = TensorType(DTYPES[data["dtype"]], read_shape(data["shape"], dims))
    type = type.quantized(read_quantization(data.get("quantization")))
    level, filled = data["level"], None
    if level is not None:
        filled = FillLevel(level["axis"], *read_shape([level["before"], level["after"]], dims))
    return Port(data["name"], type, data["donated"], filled)


def _function(library: ctypes.CDLL, name: str, pointers: int) -> Any:
    function = getattr(library, name)
    function.argtypes, function.restype = [ctypes.c_void_p] * pointers, ctypes.c_int32
    return function


class LibraryExecutable(HostExecutable):
    """An entry of a bundle; may be run by several threads at once, each with an arena."""

    def __init__(
        self,
        library: ctypes.CDLL,
        entry: Mapping[str, Any],
        interface: Interface,
        weights: Array | None,
        description: Mapping[str, Any],
    ) -> None:
        self.interface = interface
        self.weights = weights
        self.arena_bytes: int = entry["arena_bytes"]
        self._work = self.arena_bytes - entry["planned_bytes"]
        self._code_bytes: int = description["code_bytes"]
        self._weight_bytes: int = description["weights"]["bytes"]
        self._prefix = entry["prefix"]
        self.scratch_bytes: int = entry["scratch_bytes"]
        self.step_names: list[str] = entry["steps"]
        self._checks = [CheckedIndex.restore(check) for check in entry["checks"]]
        self._alarms_at: int = entry["alarms_at"]
        given = 2 + (weights is not None) + bool(interface.dims)
        self._run = _function(library, f"{self._prefix}_run", given)
        self._run_team = _function(library, f"{self._prefix}_run_team", given + 1)
        self._arenas: list[Array] = []
        self._donates = any(port.donated for port in interface.inputs)
        self._extents = ExtentReader.of(self.interface)

    @property
    def footprint(self) -> Footprint:
        """Weights, code, and scratch memory."""
        return Footprint(self._weight_bytes, self._code_bytes, self._work)

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on arrays of exactly the input types."""
        return self._call(self._run, inputs, states)

    def steps(self) -> list[StepName]:
        """The steps of its machine code."""
        return [parsed_step(name) for name in self.step_names]

    def time_steps(
        self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[float]:
        """Run once on one thread; the seconds of each step."""
        scratch = empty_bytes(self.scratch_bytes)
        team = TimedTeam(scratch.ctypes.data)
        self._call(self._run_team, inputs, states, team.address)
        return team.seconds

    def _call(
        self, run: Any, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer], *others: int
    ) -> list[Array]:
        if self._donates:
            inputs = donatable(self.interface, inputs, states)
        inputs = [np.require(array, requirements=("C", "A")) for array in inputs]
        known = self._extents.read(inputs, states)
        types = [port.type.bind(known) for port in self.interface.outputs]
        outputs = [np.empty(type.shape, type.dtype.numpy) for type in types]
        arrays = (*inputs, *outputs, *map(host_array, states.values()))
        io = (ctypes.c_void_p * len(arrays))(*map(address_of, arrays))
        try:
            arena = self._arenas.pop()
        except IndexError:  # asking first would not help: another thread may take the last one
            arena = empty_bytes(self.arena_bytes)
        extents = (ctypes.c_int64 * len(known))(*(known[dim.name] for dim in self.interface.dims))
        given = [] if self.weights is None else [self.weights.ctypes.data]
        if known:
            given.append(ctypes.addressof(extents))
        status = run(ctypes.addressof(io), arena.ctypes.data, *given, *others)
        if status == Status.INDEX:
            raise_alarm(self._checks, arena[self._alarms_at :][: alarm_bytes(len(self._checks))])
        self._arenas.append(arena)
        _raise_unless_ok(status, f"{self._prefix}_run")
        return outputs
