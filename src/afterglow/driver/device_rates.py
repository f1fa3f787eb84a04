"""The devices of this machine with what was measured of them, which is kept in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from afterglow.backends.registry import backend_names
from afterglow.driver.cache import CompileCache, build_of, digest_of_texts
from afterglow.driver.calibrate import calibrate
from afterglow.driver.devices import OPTIONAL, describe_devices, device_of, find_device, infos_of
from afterglow.driver.environment import cache_folder
from afterglow.driver.options import Options
from afterglow.driver.placed import INTERPRETER
from afterglow.runtime.device import DeviceInfo
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.rates import Rates
from afterglow.support.disk_cache import DiskCache
from afterglow.support.errors import AfterglowError, UsageError, warn
from afterglow.support.plugins import DEVICES, is_added

OnMeasure: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of a device, the number of programs done on it, and that of all."""


def devices(
    *,
    measure: bool | None = None,
    cache: bool | str | Path = True,
    on_measure: OnMeasure | None = None,
) -> list[DeviceInfo]:
    """What there is to run compiled models on, with the memory and the measured speed of each.

    Speeds are measured the first time, which takes some seconds a device, and then cached.

    Of a device that a package brings and that cannot be used, a warning says why; OpenCL is left
    out where it is not installed.

    Args:
        measure: True to measure anew, False to measure nothing: what was not measured before has
            the speed that its driver claims, or a usual one.
        cache: folder of the cache, True for the default one, False for none.
        on_measure: called with the name of a device, the number of programs that were compiled
            for it so far, and that of all.
    """
    found, missing = describe_devices()
    for name, error in missing.items():
        if name not in OPTIONAL:
            warn(error.what)
    folder = cache_folder(cache)
    return [measured_info(i, folder, measure=measure, on_measure=on_measure) for i in found]


def measured_info(
    info: DeviceInfo,
    cache: Path | None,
    *,
    measure: bool | None = None,
    on_measure: OnMeasure | None = None,
) -> DeviceInfo:
    """What a device is, with its measured rates; as it says itself if it cannot be measured."""
    backend = _backend_of(info)
    device = LogicalDevice(info.name, backend, info.target)
    try:
        rates = rates_of(device, cache, measure=measure, on_measure=on_measure)
    except AfterglowError as error:
        warn(f"device {info.name!r} could not be measured: {error.what}")
        return replace(info, backend=backend)
    return replace(rates.described(info), backend=backend)


_known: dict[str, Rates] = {}
"""What was measured or read in this process, by key."""


def rates_of(
    device: LogicalDevice,
    cache: Path | None,
    *,
    measure: bool | None = None,
    on_measure: OnMeasure | None = None,
) -> Rates:
    """The rates of a logical device with its threads: measured once, then read from the cache.

    True: measured anew; False: not measured. A device that is simulated has those that it states.
    """
    info = _info_of(device)
    if info.is_simulated or info.kind == INTERPRETER:
        return Rates.stated(info)
    key = _key(device, info)
    store = None if cache is None else CompileCache(cache).rates
    rates = None if measure else _known.get(key) or _read(store, key)
    if rates is None and measure is False:
        return Rates.stated(info)
    if rates is None:
        rates = _measure(device, info, cache, on_measure)
        if store is not None:
            store.put(key, json.dumps(rates.to_json()).encode())
    _known[key] = rates
    return rates


def _measure(
    device: LogicalDevice, info: DeviceInfo, cache: Path | None, on_measure: OnMeasure | None
) -> Rates:
    options = Options(
        backend=device.backend, target=device.target, threads=device.threads, cache=cache
    )
    if on_measure is None:
        return calibrate(options, info)
    return calibrate(options, info, on_probe=lambda *counts: on_measure(device.name, *counts))


def _read(store: DiskCache | None, key: str) -> Rates | None:
    """Rates as they were stored; None if they were not, or cannot be understood."""
    data = None if store is None else store.get(key)
    try:
        return None if data is None else Rates.of_json(json.loads(data))
    except (UsageError, ValueError):
        return None


def _info_of(device: LogicalDevice) -> DeviceInfo:
    """The device of this machine that a logical device is on: that of its target, or the first."""
    infos = infos_of(device_of(device.backend))
    return next((info for info in infos if info.target == device.target), infos[0])


def _backend_of(info: DeviceInfo) -> str:
    """The backend that compiles for a device: the one that it names, or the first that knows it."""
    known = (name for name in backend_names() if device_of(name) == info.name)
    return info.backend or next(known, info.name)


def _key(device: LogicalDevice, info: DeviceInfo) -> str:
    """What rates are stored under: the code, the device with its driver, and the threads."""
    name = device_of(device.backend)
    plugin = str(id(find_device(name))) if is_added(DEVICES, name) else ""
    identity = f"{find_device(name).identity()} {info.description} {info.driver} {plugin}"
    asked = f"{device.backend} {device.target} {device.threads}"
    return digest_of_texts([*build_of(device.backend), identity, asked])
