"""`afterglow devices`: list what there is to run models on, and how fast it is."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import click

from afterglow.cli.progress import SampleBar
from afterglow.cli.report import duration
from afterglow.cli.session import Session, general_options
from afterglow.driver.device_rates import measured_info
from afterglow.driver.devices import describe_devices
from afterglow.driver.environment import cache_folder
from afterglow.runtime.device import DeviceInfo
from afterglow.support.tables import table


@click.command()
@click.option("--measure", is_flag=True, help="Measure anew what was measured before.")
@general_options
@click.pass_obj
def devices(session: Session, measure: bool) -> int:
    """List the devices that models can run on, with their memory and speed.

    Speeds are measured when a device is listed for the first time, which takes a few seconds, and
    then kept in the cache. Measure when nothing else keeps the machine busy.

    \b
    Examples:
      afterglow devices
    """  # noqa: D301  click keeps lines after its mark as they are
    found, missing = describe_devices()
    folder = cache_folder(True)
    with SampleBar(session.err) as bar:
        infos = [
            measured_info(i, folder, measure=measure or None, on_measure=bar.run) for i in found
        ]
    data = {
        "devices": [_data(info) for info in infos],
        "missing": {name: {"what": e.what, "help": e.help} for name, e in missing.items()},
    }
    notes = [f"{name} is not here: {e.what}; {e.help}" for name, e in missing.items()]
    session.answer(data, lambda: _show(session, infos, notes))
    return 0


def _data(info: DeviceInfo) -> dict[str, Any]:
    """A device as JSON can hold it: an infinite bandwidth is null."""
    shared = math.isinf(info.transfer_bandwidth)
    return {**asdict(info), **({"transfer_bandwidth": None} if shared else {})}


def _show(session: Session, infos: list[DeviceInfo], notes: list[str]) -> None:
    numbers = ("memory", "GFLOP/s", "GB/s", "transfer", "a step")
    rows = table("device", "kind", *numbers, "machine", right=numbers)
    for info in infos:
        rows.add_row(
            info.name,
            info.kind,
            f"{info.memory_bytes / (1 << 30):.1f} GiB",
            f"{info.flops / 1e9:.0f}",
            f"{info.bandwidth / 1e9:.1f}",
            _transfer(info),
            _step(info.launch_seconds),
            info.description,
        )
    session.show(rows)
    for note in notes:
        session.say(note)


def _step(seconds: float) -> str:
    """A time that may be as short as a call."""
    return f"{seconds * 1e9:.0f} ns" if seconds < 1e-6 else duration(seconds)


def _transfer(info: DeviceInfo) -> str:
    """Latency and bandwidth between the host and a device; none if memory is one."""
    if math.isinf(info.transfer_bandwidth):
        return "shared"
    return f"{duration(info.transfer_latency)} + {info.transfer_bandwidth / 1e9:.1f} GB/s"
