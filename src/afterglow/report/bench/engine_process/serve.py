"""Entry point of the process: `build` compiles ahead of time, `serve` loads, runs and times.

Answers are lines of JSON on standard output; what engines print there goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from .clocks import peak_bytes, repeat, resident_bytes, timed
from .engine import BenchJob, CannotConvertError, Engine, Runner
from .lifetime import end_with_parent
from .registry import ENGINES

FEED, RESULTS, BUILT = "feed.npz", "results.npz", "built.json"
LONGEST = 300
"""Maximum length of an error message in characters."""

Say = Callable[[dict[str, Any]], None]


def main() -> None:
    """Execute the task in the first line of standard input."""
    end_with_parent()
    say = _private_output()
    try:
        task = json.loads(sys.stdin.readline())
        job = _job(task)
        if task["do"] == "build":
            _build(task["engine"], job, say)
        else:
            _serve(task["engine"], job, Path(task["feed"]), say)
    except ModuleNotFoundError as error:
        say({"missing": error.name or str(error)})
    except BaseException as error:
        traceback.print_exc()
        kind = "cannot convert" if isinstance(error, CannotConvertError) else type(error).__name__
        say({"error": f"{kind}: {' '.join(str(error).split())[:LONGEST]}"})
    os._exit(0)  # some engines crash on shutdown


def _private_output() -> Say:
    """A function that writes to the original standard output, which is redirected to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        out.write(json.dumps(answer) + "\n")
        out.flush()

    return say


def _job(task: dict[str, Any]) -> BenchJob:
    shapes = {name: tuple(shape) for name, shape in task["shapes"].items()}
    return BenchJob(
        task["model"],
        task["threads"],
        Path(task["folder"]),
        tuple(task["inputs"]),
        tuple(task["outputs"]),
        shapes,
        task["kinds"],
        task.get("options", {}),
        {name: tuple(bounds) for name, bounds in task.get("ranges", {}).items()},
        tuple(task.get("ops", ())),
        task.get("streams", 1),
    )


def _build(name: str, job: BenchJob, say: Say) -> None:
    engine = ENGINES[name]()
    stored, key = job.folder / BUILT, _key(engine, job)
    if engine.build_lasts and stored.exists():
        built = json.loads(stored.read_text())
        if built["key"] == key:
            say(built["answer"])
            return
    made, seconds = timed(lambda: engine.build(job))
    answer = {"compile_seconds": seconds if made else None}
    stored.write_text(json.dumps({"key": key, "answer": answer}))
    say(answer)


def _key(engine: Engine, job: BenchJob) -> str:
    """The key of compiled files: they can be reused while it is the same."""
    path = Path(job.model)
    stamp = (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None
    threads = job.threads if engine.build_knows_threads else None
    return repr((engine.version, job.model, stamp, job.shapes, threads))


def _serve(name: str, job: BenchJob, feed_path: Path, say: Say) -> None:
    with np.load(feed_path) as stored:
        feed = dict(stored)
    before = resident_bytes()
    engine, import_seconds = timed(ENGINES[name])
    runner, load_seconds = timed(lambda: engine.load(job))
    prepared = runner.prepare(feed)
    ran, first_seconds = timed(lambda: runner(prepared))
    _keep(runner, ran, job)
    say(
        {
            "version": engine.version,
            "import_seconds": import_seconds,
            "load_seconds": load_seconds,
            "first_seconds": first_seconds,
            "peak_bytes": peak_bytes() - before,
            **runner.facts(),
        }
    )
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.perf_counter()
        times = _times(runner, prepared, asked)
        busy = time.perf_counter() - started if asked["clients"] > 1 else sum(times)
        say({"times": times, "busy_seconds": busy, "peak_bytes": peak_bytes() - before})


def _times(runner: Runner, prepared: Any, asked: dict[str, Any]) -> list[float]:
    """The seconds of every call, of all clients."""

    def client(_: int = 0) -> list[float]:
        return repeat(
            lambda: runner(prepared), asked["seconds"], warm=asked["warm"], before=runner.rewind
        )

    if asked["clients"] == 1:
        return client()
    with ThreadPoolExecutor(asked["clients"]) as clients:
        found = clients.map(client, range(asked["clients"]))
        return [seconds for own in found for seconds in own]


def _keep(runner: Runner, ran: Any, job: BenchJob) -> None:
    """Write the outputs to a file for the comparison."""
    tensors = (tensor for output in runner.fetch(ran) for tensor in tensors_of(output))
    arrays = {f"{place}": tensor for place, tensor in enumerate(tensors)}
    np.savez(job.folder / RESULTS, **arrays)


def tensors_of(output: Any) -> list[Any]:
    """The tensors of an output: the elements of a sequence, or a list of maps as one matrix."""
    if output is None:
        return []
    if isinstance(output, dict):
        return [np.asarray([output[key] for key in sorted(output)])]
    if not isinstance(output, (list, tuple)):
        return _numbers(np.asarray(output))
    parts = [tensor for item in output for tensor in tensors_of(item)]
    return [np.stack(parts)] if output and isinstance(output[0], dict) else parts


def _numbers(array: Any) -> list[Any]:
    """The array, or nothing if it holds strings, which have no numerical distance."""
    return [] if array.dtype.kind in "OSU" else [array]
