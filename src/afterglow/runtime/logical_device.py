"""Logical devices: what work is placed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from afterglow.runtime.threads import checked_threads
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.sizes import as_size

HOST_TARGET = "host"


@dataclass(frozen=True)
class LogicalDevice:
    """A backend with a target, and limits within which work is placed there.

    Several may share one processor: `LogicalDevice("cpu:0", threads=1)` is one core of it.
    """

    name: str
    """What placements and reports call it."""
    backend: str = ""
    """By default what stands before the colon in its name."""
    target: str = HOST_TARGET
    threads: int | None = None
    """Threads of the host that compute; as many as this process may keep busy if None."""
    memory: int | None = None
    """Bytes for weights, intermediate results, inputs and outputs; given as a number or as text
    such as "64MiB"; None for as many as there are."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise UsageError(
                f"a logical device cannot be named {self.name!r}", help='write a name such as "cpu"'
            )
        if not self.backend:
            object.__setattr__(self, "backend", self.name.partition(":")[0])
        object.__setattr__(self, "threads", checked_threads(self.threads))
        if self.memory is not None:
            object.__setattr__(self, "memory", as_size(self.memory))

    @staticmethod
    def of(given: Any) -> LogicalDevice:
        """The device that a user means: one as it is, a backend, or `backend:target`."""
        if isinstance(given, LogicalDevice):
            return given
        if not isinstance(given, str) or not given:
            raise UsageError(
                f"a device cannot be {given!r}", help='write "cpu", "opencl", or a LogicalDevice'
            )
        backend, _, target = given.partition(":")
        return LogicalDevice(given, backend, _target(backend, target))

    @property
    def is_plain(self) -> bool:
        """Whether nothing is said but the backend and its target."""
        return self.threads is None and self.memory is None

    def to_json(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> LogicalDevice:
        """What was written so."""
        return LogicalDevice(**data)


Devices: TypeAlias = str | LogicalDevice | Iterable[str | LogicalDevice]
"""How a user names devices: one, or several."""


def logical_devices(given: Devices) -> tuple[LogicalDevice, ...]:
    """The devices that a user means, each under a name of its own."""
    if isinstance(given, (str, LogicalDevice)) or not isinstance(given, Iterable):
        return (LogicalDevice.of(given),)
    found = tuple(map(LogicalDevice.of, given))
    if not found:
        raise UsageError("there are no devices to run on", help='write ["opencl", "cpu"]')
    names = [device.name for device in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"two devices are named {twice!r}",
            help=f'give them names: LogicalDevice("{twice}:0"), LogicalDevice("{twice}:1")',
        )
    return found


def _target(backend: str, text: str) -> str:
    """The target of `backend:target`; one with a slash is spelled with its backend."""
    if not text:
        return HOST_TARGET
    return f"{backend}:{text}" if "/" in text else text
