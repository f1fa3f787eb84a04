"""The process: `build` makes files ahead of time, `serve` loads, runs, and then times on request.

It answers in lines of JSON on its standard output; what engines print there goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .clocks import peak_bytes, repeat, resident_bytes, timed
from .engine import Engine, Job, Runner
from .lifetime import end_with_parent
from .mnn_engine import MnnEngine
from .onnxruntime_engine import OnnxRuntimeEngine
from .openvino_engine import OpenVinoEngine
from .own_engine import AfterglowEngine

ENGINES: dict[str, Callable[[], Engine]] = {
    "afterglow": AfterglowEngine,
    "onnxruntime": OnnxRuntimeEngine,
    "openvino": OpenVinoEngine,
    "mnn": MnnEngine,
}
FEED, RESULTS = "feed.npz", "results.npz"

Say = Callable[[dict[str, Any]], None]


def main() -> None:
    """Read the task from the first line of standard input, and do it."""
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
        say({"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
    os._exit(0)  # some engines crash while they are torn down


def _private_output() -> Say:
    """Answers go to what was standard output; engines that print reach standard error instead."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        out.write(json.dumps(answer) + "\n")
        out.flush()

    return say


def _job(task: dict[str, Any]) -> Job:
    shapes = {name: tuple(shape) for name, shape in task["shapes"].items()}
    return Job(
        task["model"],
        task["threads"],
        Path(task["folder"]),
        tuple(task["inputs"]),
        tuple(task["outputs"]),
        shapes,
    )


def _build(name: str, job: Job, say: Say) -> None:
    engine = ENGINES[name]()
    made, seconds = timed(lambda: engine.build(job))
    say({"compile_seconds": seconds if made else None})


def _serve(name: str, job: Job, feed_path: Path, say: Say) -> None:
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
            **runner.facts(),
        }
    )
    for line in sys.stdin:
        times = repeat(lambda: runner(prepared), json.loads(line)["seconds"])
        say({"times": times, "peak_bytes": peak_bytes() - before})


def _keep(runner: Runner, ran: Any, job: Job) -> None:
    """Write the outputs where whoever compares them will look."""
    arrays = {f"{place}": np.asarray(x) for place, x in enumerate(runner.fetch(ran))}
    np.savez(job.folder / RESULTS, **arrays)  # type: ignore[arg-type]  # NumPy's stub
