"""One run of the load: the server's process, its clients, and a sample every second."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from benchmarks.serve_soak.clients import (
    Load,
    ask_grpc,
    ask_http,
    ask_swapped,
    ask_text,
    turn_models,
)
from benchmarks.serve_soak.models import SoakModel, make_folder, right_texts
from benchmarks.serve_soak.rude import send_malformed, vanish
from benchmarks.serve_soak.tally import Tally

START = 120.0
"""Seconds that the server may take to be ready."""
END = 60.0
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Plan:
    """How long and how hard a run is."""

    seconds: float
    malformed: int
    pause: float = 0.03
    most_growth: float = 16.0
    """Megabytes of the server."""
    more: Sequence[Path] = ()
    """More models."""
    tell: Callable[[str], None] = lambda line: None
    """Gets a line every minute, and one for each of the first failures."""


@dataclass(frozen=True)
class Serving:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    log: Path
    http: int
    grpc: int

    def megabytes(self) -> float:
        """Its resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE

    def files(self) -> int:
        """How many files and sockets it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def soak(plan: Plan) -> Tally:
    """Run the load; the tally has what failed."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "models"
        folder.mkdir()
        models = make_folder(folder, plan.more)
        texts = right_texts(folder)
        with _serving(folder, Path(name) / "log", tally) as serving:
            asyncio.run(_load(plan, folder, models, texts, serving, tally))
    if (growth := tally.growth()) > plan.most_growth:
        tally.fail(f"memory grew by {growth:.1f} MB")
    return tally


@contextlib.contextmanager
def _serving(folder: Path, log: Path, tally: Tally) -> Iterator[Serving]:
    """A server in a process of its own, whose end and log are checked."""
    flags = ["--http-port", "0", "--grpc-port", "0"]
    command = [sys.executable, "-X", "faulthandler", "-m", "afterglow", "serve", str(folder)]
    command += flags
    with log.open("wb") as file:
        process = subprocess.Popen(command, stderr=file, stdout=file)
    try:
        ports = _ports(process, log)
        yield Serving(process, log, ports["http"], ports["grpc"])
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END)
        if process.returncode != 0:
            tally.fail(f"the server ended with status {process.returncode}")
        for line in log.read_text().splitlines():
            if '"level": "info"' not in line:
                tally.fail(f"the server's log: {line}")
    finally:
        process.kill()
        process.wait()


def _ports(process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    """What the server says of its ports, once it is ready."""
    for _ in range(round(START / 0.1)):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        events = {line["event"]: line for line in lines}
        if "ready" in events:
            return dict(events["open"])
        if process.poll() is not None:
            break
        sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text()}")


async def _load(
    plan: Plan,
    folder: Path,
    models: Sequence[SoakModel],
    texts: dict[str, str],
    serving: Serving,
    tally: Tally,
) -> None:
    until = monotonic() + plan.seconds
    load = Load(serving.http, serving.grpc, folder, until, plan.pause, tally)
    clients = [
        *(ask_http(load, models, seed) for seed in range(2)),
        *(ask_grpc(load, models, seed) for seed in range(2)),
        ask_text(load, texts, 0),
        ask_swapped(load),
        turn_models(load),
        vanish(load, models, 0),
        send_malformed(load, plan.malformed, 0),
    ]
    tasks = [asyncio.create_task(client) for client in clients]
    await _sample(load, plan, serving)
    if serving.process.poll() is not None:  # nobody answers any more
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=serving.process.poll() is not None)


async def _sample(load: Load, plan: Plan, serving: Serving) -> None:
    began, told = monotonic(), 0
    while monotonic() < load.until:
        await asyncio.sleep(min(1.0, max(plan.seconds / 20, 0.05)))
        if serving.process.poll() is not None:
            what = f"the server ended with status {serving.process.returncode}"
            load.tally.fail(what)
            plan.tell(what)
            return
        second = monotonic() - began
        for failure in load.tally.failures[told:]:
            plan.tell(f"{second / 60:5.1f} min: {failure}")
        told = len(load.tally.failures)
        load.tally.sample(second, serving.megabytes(), serving.files())
        if len(load.tally.samples) % 60 == 0:
            last = load.tally.samples[-1]
            plan.tell(
                f"{second / 60:5.1f} min: {last.megabytes:.1f} MB, {last.files} files, "
                f"{load.tally.counts.total():,} requests, {load.tally.failed} failures"
            )


def write_json(tally: Tally, path: Path) -> None:
    """Write everything that a run has found."""
    path.write_text(json.dumps(tally.data(), indent=1) + "\n", encoding="utf-8")
