"""Models for the devices of a host: compiled, loaded or copied, and the memory that they take."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from afterglow.driver.api import compile
from afterglow.driver.devices import device_of
from afterglow.driver.load import load
from afterglow.host.placement import HostDevice, Placement
from afterglow.host.scheduler import Entry
from afterglow.runtime import CompiledModel
from afterglow.runtime.load import is_saved_model
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.native.machine import usable_cores
from afterglow.runtime.partitioned.executable import PartitionedExecutable
from afterglow.runtime.partitioned.graph import DEVICE as PARTITIONED
from afterglow.support.errors import (
    AfterglowError,
    DeviceError,
    MemoryLimitError,
    UnsupportedError,
    UsageError,
)
from afterglow.support.lazy_dataclass import dataclass

_OF_A_DEVICE = ("backend", "target", "threads")
"""Options of a compilation that are facts about a device."""


def check_options(source: Any, options: Mapping[str, Any]) -> None:
    """Refuse options that the devices of a host decide, and those of what is compiled already."""
    ours = next((name for name in options if name in _OF_A_DEVICE), None)
    if ours is not None:
        raise UsageError(
            f"a host takes {ours} from its devices, not for a model",
            help="give devices=[LogicalDevice(...)] instead",
        )
    if options and is_compiled(source):
        raise UsageError(
            f"{next(iter(options))} has no effect on a model that is compiled already",
            help="give it when the model is compiled",
        )


def is_compiled(source: Any) -> bool:
    """Whether a model needs no compiler: it is in this process, or was saved."""
    return isinstance(source, CompiledModel) or (
        isinstance(source, (str, Path)) and is_saved_model(source)
    )


def is_divided(source: Any, options: Mapping[str, Any]) -> bool:
    """Whether a model has parts on several devices, or is to have them."""
    if not is_compiled(source):
        return options.get("partition") is not None
    model = source if isinstance(source, CompiledModel) else load(source)
    artifact = model.compiled.artifact if model.versions() else None
    return artifact is not None and artifact.device == PARTITIONED


@dataclass(frozen=True)
class Provisioner:
    """Puts a model on devices, `replicas` times on each; `lock` guards the devices."""

    lock: threading.Condition
    entry: Entry
    source: Any
    options: Mapping[str, Any]
    replicas: int

    def place_on_each(self, devices: Sequence[HostDevice]) -> None:
        """Put the model on devices; an error if one of them cannot run it."""
        for device in devices:
            self._place(device)

    def place_where_possible(self, devices: Sequence[HostDevice]) -> None:
        """Put the model on those devices that can run it; an error if none can."""
        refused: dict[str, AfterglowError] = {}
        for device in devices:
            try:
                self._place(device)
            except (UnsupportedError, MemoryLimitError, DeviceError) as error:
                refused[device.name] = error
            if any(has_state(placement.model) for placement in self.entry.placements):
                return
        if self.entry.placements:
            return
        if len(refused) == 1:
            raise next(iter(refused.values()))
        raise UnsupportedError(
            f"no device of the host can run {self.entry.name!r}",
            excerpt=[f"{name}: {error.what}" for name, error in refused.items()],
        )

    def place_divided(
        self, devices: Sequence[HostDevice], group: Callable[[Sequence[str]], HostDevice]
    ) -> None:
        """Have a model that has parts on several devices run on a group of devices.

        One that is best left in one piece is on the first device of the kind that was chosen.
        """
        load = divider(self.source, devices, self.options)
        model = load()
        if not isinstance(model.compiled.executable, PartitionedExecutable):
            self._place_whole(model, load, devices)
            return
        parts = model.compiled.executable.parts
        names = dict.fromkeys(part.name for part in parts)
        runs = self.replicas if has_state(model) else 2 * len(names) * self.replicas
        known = {device.name: device for device in devices}
        taken = [(known[part.name], part.nbytes) for part in parts if part.name in known]
        self._add(Placement(group([*names]), model, load, runs), taken)

    def _place_whole(
        self, model: CompiledModel, load: Callable[[], CompiledModel], devices: Sequence[HostDevice]
    ) -> None:
        artifact = model.compiled.artifact
        kinds = {device_of(device.logical.backend): device for device in reversed(devices)}
        device = devices[0] if artifact is None else kinds[artifact.device]
        needed = needed_bytes(self.entry.name, model, self.replicas, device.logical)
        self._add(Placement(device, model, load, self.replicas), [(device, needed)])

    def _place(self, device: HostDevice) -> None:
        load = loader(self.source, device.logical, self.options, device.streams.number)
        model = load()
        check_device(self.entry.name, model, device.logical)
        needed = needed_bytes(self.entry.name, model, self.replicas, device.logical)
        self._add(Placement(device, model, load, self.replicas), [(device, needed)])

    def _add(self, placement: Placement, taken: Sequence[tuple[HostDevice, int]]) -> None:
        name = self.entry.name
        if has_state(placement.model) and (self.replicas > 1 or self.entry.placements):
            raise UsageError(
                f"{name!r} keeps state, so all its requests must meet the same replica",
                help="give it one device and one replica, or add it under a name for each state",
            )
        with self.lock:
            for device, needed in taken:
                limit = device.logical.memory
                if limit is not None and device.used_bytes + needed > limit:
                    raise _too_large(name, needed, limit, device)
            for device, needed in taken:
                device.used_bytes += needed
            placement.taken = taken
            self.entry.placements.append(placement)


def loader(
    source: Any, device: LogicalDevice, options: Mapping[str, Any], streams: int = 1
) -> Callable[[], CompiledModel]:
    """What loads a model on a device; also a second time, if the device failed in between.

    Each of its streams has cores of its own, as long as there are cores; a model that somebody
    compiled has what it was compiled with.
    """
    if isinstance(source, CompiledModel):
        return _Copier(source)
    most = max(1, usable_cores() // (device.threads or 1))
    where: dict[str, Any] = {"threads": device.threads, "streams": min(streams, most)}
    if is_compiled(source):
        return lambda: load(source, **where)
    return lambda: compile(source, backend=device.backend, target=device.target, **where, **options)


def divider(
    source: Any, devices: Sequence[HostDevice], options: Mapping[str, Any]
) -> Callable[[], CompiledModel]:
    """What loads a model on several devices, whose streams its parts share with other models.

    One that was divided before knows its devices itself; those that the host has not are its own.
    """
    streams = {device.name: device.streams for device in devices}
    copier = _Copier(source) if isinstance(source, CompiledModel) else None

    def divided() -> CompiledModel:
        if copier is not None:
            model = copier()
        elif is_compiled(source):
            model = load(source)
        else:
            model = compile(source, backend=[device.logical for device in devices], **options)
        executable = model.compiled.executable
        if isinstance(executable, PartitionedExecutable):
            model.compiled.executable = executable.sharing(streams)
        return model

    return divided


class _Copier:
    """Copies a compiled model: at first with the same code and constants, later all of it."""

    def __init__(self, model: CompiledModel) -> None:
        self.model = model
        self.is_first = True

    def __call__(self) -> CompiledModel:
        if self.is_first or not self.model.is_static:  # of which only what is compiled is saved
            self.is_first = False
            return deepcopy(self.model)
        anew: CompiledModel = pickle.loads(pickle.dumps(self.model))
        return anew


def check_device(name: str, model: CompiledModel, device: LogicalDevice) -> None:
    """Raise if a model was compiled for another device than the one that it is to run on."""
    artifact = model.compiled.artifact if model.versions() else None
    wanted = device_of(device.backend)
    if artifact is not None and artifact.device != wanted:
        raise UnsupportedError(
            f"{name!r} was compiled for device {artifact.device!r}, and {device.name!r} runs what "
            f"is compiled for {wanted!r}",
            help="give the source of the model, which is compiled for each device",
        )


def has_state(model: CompiledModel) -> bool:
    """Whether a model keeps something from run to run."""
    return bool(model.versions()) and bool(model.compiled.interface.states)


def needed_bytes(name: str, model: CompiledModel, replicas: int, device: LogicalDevice) -> int:
    """What a model takes on a device: weights and code once, all else for each run at once."""
    if not model.versions():
        if device.memory is None:
            return 0
        raise UsageError(
            f"what {name!r} takes of the memory of device {device.name!r} is not known: its shapes "
            "are bound by calls",
            help="bind its dimensions with dims= or shapes=, or give their bounds",
        )
    memory = model.memory
    once = memory.weight_bytes + memory.code_bytes
    return once + replicas * (memory.total_bytes - once)


def _too_large(name: str, needed: int, limit: int, device: HostDevice) -> MemoryLimitError:
    used = device.used_bytes
    taken = f", of which other models take {used:,}" if used else ""
    return MemoryLimitError(
        f"{name!r} needs {needed:,} bytes on device {device.name!r}, which has {limit:,}{taken}",
        help="give it fewer replicas or another device, or divide it over several with partition=",
    )
