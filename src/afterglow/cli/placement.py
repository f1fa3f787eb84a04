"""Options that say where a model runs: its backend, or the devices that it is partitioned over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from afterglow.backends.registry import backend_names
from afterglow.driver.options import Options
from afterglow.driver.placed import AUTO, placed_on
from afterglow.partition.config import LATENCY, THROUGHPUT, PartitionConfig
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.support.errors import UsageError


class BackendNames(click.ParamType[Any]):
    """A backend, several of them with commas between, or all devices."""

    name = "name[,name]"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """A name, or a list of names."""
        names = str(value).split(",")
        known = backend_names()
        for name in names:
            if name.partition(":")[0] not in known and str(value) != AUTO:
                raise UsageError(
                    f"there is no backend {name!r}",
                    help=f"there are {', '.join(known)}; several with commas between; or {AUTO}",
                )
        return str(value) if len(names) == 1 and ":" not in str(value) else names


class DeviceText(click.ParamType[LogicalDevice]):
    """A logical device: `cpu:0,threads=1,memory=64MiB`."""

    name = "name[,threads=n][,memory=size]"

    def convert(self, value: Any, param: Any, ctx: Any) -> LogicalDevice:
        """The device with its limits."""
        name, *settings = str(value).split(",")
        given: dict[str, Any] = {}
        for setting in settings:
            key, _, text = setting.partition("=")
            if key not in ("threads", "memory", "backend", "target") or not text:
                raise UsageError(
                    f"{setting!r} says nothing of a device",
                    help="write threads=1, memory=64MiB, backend=cpu or target=host",
                )
            given[key] = int(text) if key == "threads" and text.isdecimal() else text
        return LogicalDevice(name, **given)


class Placed(click.ParamType[tuple[str, str]]):
    """The device of some nodes: `PATTERN=DEVICE`."""

    name = "pattern=device"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """The pattern and the name of the device."""
        pattern, _, device = str(value).rpartition("=")
        if not pattern or not device:
            raise UsageError(
                f"{value!r} places nothing", help='write "layer1/*=cpu:0", or conv=opencl'
            )
        return pattern, device


PLACEMENT_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--backend",
        type=BackendNames(),
        default=Options.backend,
        show_default=True,
        help="cpu generates machine code, opencl kernels; interpreter runs the reference "
        "definition of every op, primitives does so after lowering everything to primitive ops. "
        "Several, such as opencl,cpu, partition the model; auto takes all devices.",
    ),
    click.option(
        "--device",
        "devices",
        type=DeviceText(),
        multiple=True,
        help="A device with limits, instead of --backend; several partition the model.",
    ),
    click.option(
        "--place",
        type=Placed(),
        multiple=True,
        help="Compute nodes, by pattern of their names, or ops on a device.",
    ),
    click.option(
        "--objective",
        type=click.Choice([LATENCY, THROUGHPUT]),
        help="What a partition is good for: one run, or many requests.  [default: latency]",
    ),
    click.option("--split-batch", is_flag=True, help="Give each device some items of a batch."),
)


def placed_by(
    backend: Any,
    target: str,
    threads: int | None,
    devices: tuple[LogicalDevice, ...],
    place: tuple[tuple[str, str], ...],
    objective: str | None,
    split_batch: bool,
) -> dict[str, Any]:
    """The options of a compilation that say where a model runs."""
    config = None
    if place or objective or split_batch:
        config = PartitionConfig(objective or LATENCY, dict(place), split_batch=split_batch)
    return placed_on(devices or backend, target, threads, config)
