"""`Host`, the public manager of devices, models and requests."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from afterglow.driver.devices import device_of
from afterglow.host.placement import HostDevice, Placement
from afterglow.host.provision import Provisioner, check_options, is_divided
from afterglow.host.request import Request
from afterglow.host.scheduler import Entry, Scheduler
from afterglow.host.statistics import DeviceStatistics, HostStatistics, ModelStatistics
from afterglow.runtime.logical_device import Devices, LogicalDevice, logical_devices
from afterglow.runtime.partitioned.graph import DEVICE as PARTITIONED
from afterglow.runtime.streams import UNBOUNDED, Stream, Streams, checked_count, due
from afterglow.runtime.trace import Recording, Row, Trace, opened_trace, recording
from afterglow.support.errors import UsageError


class Host:
    """Runs many models for many callers at once, on the devices of this machine.

    Requests with a lower number as their priority begin first, of equal ones what came first. At
    most `max_active` requests are with devices at a time and `max_queue` further ones wait; one
    more is refused with a `QueueFullError`. Each device has `streams` threads, each of which runs
    one request at a time. `trace` is a `Trace`, or the path of a file that is written at shutdown.
    `fault` is called with the names of the device and the model before each run, and may raise
    what a device would.
    """

    def __init__(
        self,
        devices: Devices | None = None,
        *,
        max_active: int = 48,
        max_queue: int = 100,
        streams: int = 1,
        trace: Trace | str | Path | None = None,
        fault: Callable[[str, str], None] | None = None,
    ) -> None:
        found = logical_devices("cpu" if devices is None else devices)
        for device in found:
            device_of(device.backend)  # an error if there is no such backend
        checked_count("streams", streams)
        self._devices = {
            device.name: HostDevice(device, Streams(device.name, streams, limit=UNBOUNDED))
            for device in found
        }
        self._groups: dict[str, HostDevice] = {}
        self._scheduler = Scheduler(
            self._run,
            checked_count("max_active", max_active),
            checked_count("max_queue", max_queue),
        )
        self._trace, self._trace_path = opened_trace(trace)
        self._fault = fault
        self._numbers = count(1)
        self._began = monotonic()
        self._process = os.getpid()

    @property
    def devices(self) -> tuple[LogicalDevice, ...]:
        """What requests may run on."""
        return tuple(device.logical for device in self._devices.values())

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that take requests."""
        with self._scheduler.changed:
            entries = self._scheduler.entries.items()
            return tuple(name for name, entry in entries if entry.is_ready)

    def add(
        self,
        name: str,
        model: Any,
        devices: Iterable[str | LogicalDevice] | str | LogicalDevice | None = None,
        replicas: int = 1,
        **options: Any,
    ) -> None:
        """Load a model on devices of the host, so that requests can name it.

        It is what `compile` takes, compiled for each device with the options; the path of a saved
        model; or a `CompiledModel`, of which the host has a copy with states of its own. Without
        `devices` it is put on all that can run it. `replicas` of its requests may run at the same
        time on each. A model that keeps state is on one device, and runs one request at a time.
        With `partition`, a `PartitionConfig`, the model is divided over the devices; so is a
        compiled model that was divided before, over those that it was compiled for.
        """
        checked_count("replicas", replicas)
        check_options(model, options)
        chosen = self._chosen(devices)
        entry = self._reserve(name)
        provisioner = Provisioner(self._scheduler.changed, entry, model, options, replicas)
        try:
            if is_divided(model, options):
                provisioner.place_divided(chosen, self._new_group)
            elif devices is None:
                provisioner.place_where_possible(chosen)
            else:
                provisioner.place_on_each(chosen)
        except BaseException:
            self._forget(entry)
            raise
        entry.is_ready = True

    def _chosen(self, devices: Any) -> list[HostDevice]:
        if devices is None:
            return [*self._devices.values()]
        is_one = isinstance(devices, str) or not isinstance(devices, Iterable)
        given = [devices] if is_one else [*devices]
        names = [device.name if isinstance(device, LogicalDevice) else device for device in given]
        unknown = [name for name in names if name not in [*self._devices]]
        if unknown:
            raise UsageError(
                f"the host has no device {unknown[0]!r}", help=f"it has {', '.join(self._devices)}"
            )
        if not names:
            raise UsageError("there are no devices to run on", help="omit devices to use all")
        return [self._devices[name] for name in dict.fromkeys(names)]

    def _reserve(self, name: str) -> Entry:
        if not isinstance(name, str) or not name:
            raise UsageError(f"a model of a host cannot be named {name!r}", help="write a text")
        self._check_process()
        with self._scheduler.changed:
            if self._scheduler.is_closed:
                raise UsageError("the host is shut down")
            if name in self._scheduler.entries:
                raise UsageError(
                    f"the host has a model {name!r} already",
                    help="remove it first, or give this one another name",
                )
            entry = self._scheduler.entries[name] = Entry(name)
        return entry

    def _new_group(self, devices: Sequence[str]) -> HostDevice:
        """Devices that share the requests of a model, each of which runs its parts of them."""
        name = " + ".join(devices)
        if name not in self._groups:
            streams = Streams(name, 2 * len(devices), limit=UNBOUNDED)
            self._groups[name] = HostDevice(LogicalDevice(name, PARTITIONED), streams)
        return self._groups[name]

    def _forget(self, entry: Entry) -> None:
        with self._scheduler.changed:
            self._scheduler.entries.pop(entry.name, None)
            for placement in entry.placements:
                for device, taken in placement.taken:
                    device.used_bytes -= taken

    def remove(self, name: str, *, wait: bool = True, timeout: float | None = None) -> None:
        """Take a model from the host: it gets no further requests, and those it has are awaited.

        Without `wait`, or if they are not done after `timeout` seconds, it stays, and an error
        says how many there are.
        """
        if wait:
            _check_not_on_stream("remove")
        with self._scheduler.changed:
            entry = self._scheduler.entry(name)
            entry.is_ready = False
            limit = timeout if wait else 0.0
            try:
                self._scheduler.changed.wait_for(lambda: not entry.open, limit)
            finally:
                entry.is_ready = entry.open > 0
            if entry.is_ready:
                raise UsageError(
                    f"{name!r} cannot be removed: {entry.open:,} of its requests are not done",
                    help="wait for them, or cancel them",
                )
        self._forget(entry)

    def run(
        self,
        name: str,
        *arrays: Any,
        priority: int = 0,
        deadline: float | None = None,
        **named: Any,
    ) -> Any:
        """Run a model on what a call of it takes, and wait for the result.

        `priority` and `deadline` are as for `submit`; inputs of these names are given in a
        dictionary, as the only array.
        """
        _check_not_on_stream("run")
        future = self.submit(name, *arrays, priority=priority, deadline=deadline, **named)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # which is for who interrupts the wait: nobody wants it any more
            raise

    async def run_async(
        self,
        name: str,
        *arrays: Any,
        priority: int = 0,
        deadline: float | None = None,
        **named: Any,
    ) -> Any:
        """Run a model as `run` does, within an event loop; who cancels it cancels the request."""
        future = self.submit(name, *arrays, priority=priority, deadline=deadline, **named)
        return await asyncio.wrap_future(future)

    def submit(
        self,
        name: str,
        *arrays: Any,
        priority: int = 0,
        deadline: float | None = None,
        **named: Any,
    ) -> Future[Any]:
        """Begin to run a model on what a call of it takes; an error comes with the result.

        The arrays must not change until it is there. A request that has not begun when its
        deadline, in seconds from now, has passed gets a `DeadlineError`. If all queues are full
        there is a `QueueFullError` at once.
        """
        self._check_process()
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise UsageError(f"a priority must be a whole number, got {priority!r}")
        number = next(self._numbers)
        request = Request(priority, number, name, arrays, named, due(deadline))
        if self._trace is None:
            self._scheduler.submit(request)
        else:
            row = Row("host", threading.current_thread().name)
            with self._trace.span(row, f"submit {name}", kind="submit", request=number):
                self._scheduler.submit(request)
        return request.future

    def _run(self, request: Request, placement: Placement) -> Any:
        """Run a request on a device; this is called on one of its streams."""
        if self._fault is not None:
            self._fault(placement.device.name, request.model)
        if self._trace is None:
            return placement.run(request)
        stream = threading.current_thread()
        assert isinstance(stream, Stream)
        row = Row(placement.device.name, f"stream {stream.place}")
        waited = round((monotonic() - request.came) * 1e3, 3)
        here = Recording(self._trace, request.number, row)
        about = {"priority": request.priority, "waited ms": waited}
        with here.span(request.model, "run", **about), recording(here):
            return placement.run(request)

    def statistics(self) -> HostStatistics:
        """Counts, queue lengths, times and shares; printed, they are tables."""
        with self._scheduler.changed:
            entries = [*self._scheduler.entries.values()]
            models = tuple(
                ModelStatistics.of(
                    entry.name,
                    [placement.device.name for placement in entry.placements],
                    entry.counters,
                    *self._scheduler.counts(entry.name),
                )
                for entry in entries
            )
            devices = tuple(self._device_statistics(d, entries) for d in self._all_devices())
        return HostStatistics(monotonic() - self._began, models, devices)

    def _all_devices(self) -> list[HostDevice]:
        return [*self._devices.values(), *self._groups.values()]

    def _device_statistics(self, device: HostDevice, entries: Iterable[Entry]) -> DeviceStatistics:
        own = [
            (entry.name, placement)
            for entry in entries
            for placement in entry.placements
            if placement.device is device
        ]
        streams = device.streams
        elapsed = max(monotonic() - self._began, 1e-9) * streams.number
        return DeviceStatistics(
            device.name,
            streams.number,
            waiting=streams.waiting + sum(len(placement.waiting) for _, placement in own),
            done=device.done,
            failures=device.failures,
            down=tuple(name for name, placement in own if placement.failure is not None),
            busy=min(1.0, streams.busy_seconds / elapsed),
            used_bytes=device.used_bytes,
            memory_bytes=device.logical.memory,
        )

    def shutdown(self, wait: bool = True, *, timeout: float | None = None) -> None:
        """Take no further requests; wait until those that there are are done.

        Without `wait`, or after `timeout` seconds, each that is not done gets a `ShutdownError`.
        What runs by then goes on, but nobody gets its result.
        """
        if wait:
            _check_not_on_stream("shutdown")
        is_idle = self._scheduler.close(timeout if wait else 0.0)
        self._scheduler.give_up()
        for device in self._all_devices():
            device.streams.shutdown(drain=False, timeout=None if is_idle and wait else 0.0)
        if self._trace is not None and self._trace_path is not None:
            self._trace.save(self._trace_path)

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut down; an error that leaves the block does not wait for requests."""
        self.shutdown(wait=error is None)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise UsageError(
                "the host was made in another process, which has its threads",
                help="make a host in each process",
            )

    def __repr__(self) -> str:
        return f"<Host of {', '.join(self._devices)}: {', '.join(self.models) or 'no models'}>"


def _check_not_on_stream(what: str) -> None:
    """Refuse to wait for streams on one of them, which could wait for itself."""
    if isinstance(threading.current_thread(), Stream):
        raise UsageError(
            f"{what} would wait on a thread that runs requests",
            help="call it elsewhere than in the callback of a future, or submit",
        )
