"""Requests per second of the server, and of ONNX Runtime behind the same front.

`python -m benchmarks.serve_load MODEL.onnx …` starts two servers on the loopback address: one as it
is, and one whose runs ONNX Runtime does, on the same model. How many rows requests are joined to is
tried for each of them, as the server does it. A client of its own process keeps a number of
requests in flight. Servers take turns, round by round; a figure is the most requests per second
with a 99th percentile within the limit. Where other programs use the processor, too, the processor
time of a request, that of the client included, says more: two cores that do nothing else answer two
seconds' worth of it a second. `--alone` measures the server's own cost: a single client, and the
processor time of a request.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, cast

import numpy as np
import onnxruntime
import uvloop

import afterglow as ag
from afterglow.serve.config import ServeConfig, read_config
from afterglow.serve.rebatch import with_free_batch
from afterglow.serve.served import ServedModel
from afterglow.serve.server import Server

IN_FLIGHT = (1, 2, 4, 8, 16, 32)
"""How many requests the client keeps in flight, one number a round, unless others are given."""

TURNS = 3
"""Rounds of each server with a number of requests in flight, unless another number is given."""


class OrtHost:
    """Runs a model with ONNX Runtime, where the server asks its host to."""

    def __init__(self, path: Path, outputs: list[str], instances: int, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        model = with_free_batch(path)
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        self._outputs = outputs
        self._pool = ThreadPoolExecutor(instances)

    def submit(self, key: str, feed: dict[str, Any], priority: int = 0) -> Future[Any]:
        """Begin a run."""
        return self._pool.submit(self._session.run, self._outputs, feed)

    def run(self, key: str, feed: dict[str, Any]) -> Any:
        """Do a run."""
        return self.submit(key, feed).result()


def serve(folder: Path, engine: str, settings: dict[str, Any]) -> None:
    """Serve a folder until standard input ends; the port is written to standard output."""
    flags = {"models": folder, "http_port": 0, "grpc_port": -1, "max_queue": 4096, **settings}
    config = read_config(None, flags)
    with Server(config) as server:
        assert server.core is not None
        rows = 0
        for served in server.core.repository.all_served():
            if engine == "onnxruntime":
                replace_engine(served, config)
            rows = served.batcher.limits.max_batch
        print(server.http_port, rows, flush=True)
        sys.stdin.read()


def replace_engine(served: ServedModel, config: ServeConfig) -> None:
    """Have ONNX Runtime run a model, with the number of rows that is best for it."""
    outputs, instances = list(served.outputs), config.most_instances
    host: Any = OrtHost(served.found.path, outputs, instances, config.threads_each)
    served._host = host
    served.batcher.limits = replace(served.batcher.limits, max_batch=served.max_batch)
    served.warm_up(process_time if config.joins_what_pays(served.name) else None)
    served.is_inline = False  # which would be a run of our own


class Started(NamedTuple):
    """A server that runs: its port, its process, and how many rows it joins."""

    port: int
    process: int
    rows: int

    def processor_seconds(self) -> float:
        """The processor time that it has used."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def started(folder: Path, engine: str, settings: dict[str, Any]) -> Iterator[Started]:
    """A server in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.serve_load", "--serve", engine, str(folder)]
    process = subprocess.Popen(
        [*command, "--settings", json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port, rows = process.stdout.readline().split()
        yield Started(int(port), process.pid, int(rows))
    finally:
        process.stdin.close()
        process.wait(30)


@dataclass
class Round:
    """What a number of requests in flight gave."""

    rate: float
    p50: float
    p99: float
    failed: int
    requests: int


@dataclass
class Used:
    """Processor time of the server and the client, and the requests that it went to."""

    requests: int = 0
    seconds: float = 0.0


class Connection(asyncio.Protocol):
    """A connection that sends the same request again and again."""

    def __init__(self, request: bytes, until: float, times: list[float]) -> None:
        self.request, self.until, self.times = request, until, times
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failed = 0
        self._left = 0
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        self._began = perf_counter()
        self._transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Count bytes of an answer; after the last, send the next request."""
        if self._left == 0:
            head, _, rest = data.partition(b"\r\n\r\n")
            lowered = head.lower()
            self.failed += not lowered.startswith(b"http/1.1 200")
            length = lowered.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
            self._left = int(length) - len(rest)
        else:
            self._left -= len(data)
        if self._left:
            return
        now = perf_counter()
        self.times.append(now - self._began)
        if now < self.until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The round is over."""
        if not self.ended.done():
            self.ended.set_result(None)


async def load(port: int, request: bytes, in_flight: int, seconds: float) -> Round:
    """Keep requests in flight for some seconds."""
    loop, times = asyncio.get_running_loop(), [0.0] * 0
    began = perf_counter()
    made = [
        await loop.create_connection(
            lambda: Connection(request, began + seconds, times), "127.0.0.1", port
        )
        for _ in range(in_flight)
    ]
    await asyncio.gather(*(connection.ended for _, connection in made))
    elapsed = perf_counter() - began
    ordered = sorted(times)
    p50, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99))
    failed = sum(c.failed for _, c in made)
    return Round(len(times) / elapsed, p50, p99, failed, len(times))


def measured(server: Started, request: bytes, in_flight: int, seconds: float, used: Used) -> Round:
    """Keep requests in flight for some seconds, and count the processor time that they take."""
    before = server.processor_seconds() + process_time()
    found: Round = run(load(server.port, request, in_flight, seconds))
    used.requests += found.requests
    used.seconds += server.processor_seconds() + process_time() - before
    return found


def processor_times(first: Used, second: Used) -> str:
    """What a request takes of the processor, on average, in two ways."""
    here, there = (1e3 * each.seconds / each.requests for each in (first, second))
    return (
        f"processor time of a request {here:.3g} ms against {there:.3g} ms: "
        f"{there / here:.2f} times"
    )


def infer_request(model: str, feed: dict[str, Any]) -> bytes:
    """The bytes of a request with tensors behind JSON."""
    datatypes = {"float32": "FP32", "int64": "INT64", "int32": "INT32"}
    inputs = [
        {
            "name": name,
            "shape": list(array.shape),
            "datatype": datatypes[str(array.dtype)],
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, array in feed.items()
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    body = head + b"".join(array.tobytes() for array in feed.values())
    lines = [
        f"POST /v2/models/{model}/infer HTTP/1.1",
        "Host: localhost",
        f"Inference-Header-Content-Length: {len(head)}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def example(path: Path) -> dict[str, Any]:
    """Inputs of one row for a model."""
    model = ag.compile(path)
    chance = np.random.default_rng(0)
    return {
        info.name: (
            chance.standard_normal(info.exact_shape).astype(np.float32)
            if info.dtype is not None and info.dtype.is_float
            else chance.integers(0, 2, info.exact_shape).astype(np.int64)
        )
        for info in model.inputs
    }


def compare(
    path: Path,
    limit: float,
    seconds: float,
    settings: dict[str, Any],
    numbers: Sequence[int] = IN_FLIGHT,
    turns: int = TURNS,
) -> None:
    """Both engines at each number of requests in flight, by turns; the best of some rounds."""
    request = infer_request(path.stem, example(path))
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(path, name)
        folder = Path(name)
        with (
            started(folder, "afterglow", settings) as own,
            started(folder, "onnxruntime", settings) as peer,
        ):
            best = {own: 0.0, peer: 0.0}
            used = {own: Used(), peer: Used()}
            print(
                f"{path.stem}: p99 within {limit * 1e3:g} ms, {settings or 'as it is'}, "
                f"up to {own.rows} and {peer.rows} rows joined"
            )
            for in_flight in numbers:
                rounds: dict[Started, list[Round]] = {own: [], peer: []}
                for _ in range(turns):
                    for server in (own, peer):
                        found = measured(server, request, in_flight, seconds, used[server])
                        rounds[server].append(found)
                fastest = {s: max(each, key=lambda r: r.rate) for s, each in rounds.items()}
                for server, each in rounds.items():
                    within = [r.rate for r in each if r.p99 <= limit and not r.failed]
                    best[server] = max([best[server], *within])
                texts = (
                    f"{r.rate:8,.0f}/s  p50 {r.p50 * 1e3:7.2f}  p99 {r.p99 * 1e3:7.2f} ms"
                    for r in fastest.values()
                )
                print(f"  {in_flight:3} in flight  afterglow {'   onnxruntime '.join(texts)}")
            ratio = best[own] / best[peer] if best[peer] else float("nan")
            print(f"  best  {best[own]:,.0f}/s against {best[peer]:,.0f}/s: {ratio:.2f} times")
            print(f"  {processor_times(used[own], used[peer])}")


def batches(
    path: Path, seconds: float, in_flight: int, settings: dict[str, Any], turns: int
) -> None:
    """What joining requests gains."""
    request = infer_request(path.stem, example(path))
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(path, name)
        alone = {**settings, "max_batch": 1}
        with (
            started(Path(name), "afterglow", settings) as joined,
            started(Path(name), "afterglow", alone) as single,
        ):
            best = {joined: 0.0, single: 0.0}
            used = {joined: Used(), single: Used()}
            for _ in range(turns):
                for server in best:
                    found = measured(server, request, in_flight, seconds, used[server])
                    best[server] = max(best[server], found.rate)
            ratio = best[joined] / best[single]
            print(
                f"{path.stem}, {in_flight} in flight: up to {joined.rows} joined "
                f"{best[joined]:,.0f}/s, alone {best[single]:,.0f}/s: {ratio:.2f} times\n"
                f"  {processor_times(used[joined], used[single])}"
            )


def own_cost(path: Path, seconds: float) -> None:
    """The time of a request over that of the model's call, and the processor time of the server."""
    feed = example(path)
    model = ag.compile(path, threads=1)
    called = min(_timed(lambda: model(feed)) for _ in range(2000))
    request = infer_request(path.stem, feed)
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(path, name)
        with started(Path(name), "afterglow", {"instances": 1, "threads": 1}) as server:
            run(load(server.port, request, 1, 0.5))
            single = [run(load(server.port, request, 1, seconds)) for _ in range(3)]
            before = server.processor_seconds()
            many = [run(load(server.port, request, 16, seconds)) for _ in range(3)]
            used = server.processor_seconds() - before
    latency = min(each.p50 for each in single)
    rate = max(each.rate for each in many)
    each = used / sum(found.rate * seconds for found in many)
    print(
        f"{path.stem}: call {called * 1e6:.0f} us; request {latency * 1e6:.0f} us with one client; "
        f"16 clients: {rate:,.0f}/s, {each * 1e6:.0f} us of processor time a request, runs included"
    )


def _timed(work: Any) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def run(work: Any) -> Any:
    """Run a coroutine on the fast event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def main() -> None:
    """Measure what arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--limit", type=float, default=0.1, help="seconds of the 99th percentile")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=TURNS, help="rounds of each server")
    parser.add_argument("--in-flight", type=int, nargs="+", default=IN_FLIGHT, metavar="NUMBER")
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--serve", metavar="ENGINE", help="used by the script itself")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--batches", type=int, metavar="IN_FLIGHT")
    given = parser.parse_args()
    if given.serve:
        serve(given.models[0], given.serve, given.settings)
        return
    for path in given.models:
        if given.alone:
            own_cost(path, given.seconds)
        elif given.batches:
            batches(path, given.seconds, given.batches, given.settings, given.turns)
        else:
            numbers = given.in_flight
            compare(path, given.limit, given.seconds, given.settings, numbers, given.turns)


if __name__ == "__main__":
    main()
