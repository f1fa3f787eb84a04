"""Compare the speed of quantized models with that of other engines.

    python -m benchmarks.quantization_speed MODEL.onnx… [--peer PYTHON] [--threads N]
        [--rounds N] [--folder FOLDER]

Models of floats are quantized by Afterglow, with random samples, and written as ONNX for the other
engines; NNCF quantizes them by itself. Models that are quantized already run as they are. `--peer`
is the Python that has onnxruntime, openvino and nncf. Every contestant has a process of its own;
they take turns, one at a time, and the fastest call of all turns counts. What is compiled is kept
in the folder, if one is given.

"AVX2" is code for `x86-64-v3`, and OpenVINO with `ONEDNN_MAX_CPU_ISA=AVX2`. ONNX Runtime has no
such setting: it takes the best instructions that it finds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnx

import afterglow as ag
from benchmarks.markdown import milliseconds, table
from benchmarks.speed_worker import Feed

TURN = 0.25
"""Seconds of a turn."""
PAUSE = 0.05
"""Seconds between turns: threads of some engines spin for a while after a call."""
AVX2 = "x86-64-v3"


@dataclass(frozen=True)
class Contestant:
    """A tool with a file that it runs, and environment variables for it."""

    name: str
    tool: str
    model: Path
    environment: tuple[tuple[str, str], ...] = ()


def contestants(model: Path, folder: Path, feed: Feed) -> Iterator[Contestant]:
    """Who runs a model, and what they run: made if it is not in the folder yet."""
    is_quantized = any(node.op_type == "QuantizeLinear" for node in _graph(model).node)
    precision = {} if is_quantized else {"precision": "int8", "profile": _profile(model, feed)}
    stem, exported = folder / model.stem, model
    if not is_quantized:
        yield Contestant("float32", "afterglow", _compiled(model, stem.with_suffix(".f32.agc")))
        exported = stem.with_suffix(".qdq.onnx")
        if not exported.exists():
            ag.export_onnx(model, exported, **precision)
    ours = {"int8": "host", "int8 AVX2": AVX2}
    for name, target in ours.items():
        path = stem.with_suffix(f".{target}.agc")
        yield Contestant(name, "afterglow", _compiled(model, path, target=target, **precision))
    yield Contestant("ONNX Runtime", "ort", exported)
    narrow = (("ONEDNN_MAX_CPU_ISA", "AVX2"),)
    yield Contestant("OpenVINO", "openvino", exported)
    yield Contestant("OpenVINO AVX2", "openvino", exported, narrow)
    if not is_quantized:
        copy = stem.with_suffix(".nncf.onnx")
        if not copy.exists():
            copy.symlink_to(model.resolve())
        yield Contestant("NNCF", "openvino", copy)
        yield Contestant("NNCF AVX2", "openvino", copy, narrow)


def _compiled(model: Path, path: Path, **options: object) -> Path:
    if not path.exists():
        ag.compile(model, threads=1, **options).save(path)
    return path


def _profile(model: Path, feed: Feed) -> ag.Profile:
    return ag.profile(model, [feed], threads=1)


def _graph(model: Path) -> onnx.GraphProto:
    return onnx.load(model, load_external_data=False).graph


def random_feed(model: Path) -> Feed:
    """Random inputs: floats around 0, and small integers."""
    rng, feed = np.random.default_rng(0), {}
    for info in ag.import_model(model).main.inputs:
        shape, dtype = info.type.shape, info.type.dtype.numpy
        made = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
        feed[info.name] = made.astype(dtype)
    return feed


@contextmanager
def started(each: Contestant, python: Path, feed: Path, threads: int) -> Iterator[subprocess.Popen]:
    """The process of a contestant, ready to run."""
    own = Path(sys.executable) if each.tool == "afterglow" else python
    command = [own, "-m", f"benchmarks.speed_{each.tool}", each.model, feed, str(threads)]
    worker = subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, **dict(each.environment)},
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        while (line := worker.stdout.readline()) and line.strip() != "ready":
            pass
        yield worker
    finally:
        worker.stdin.close()
        worker.wait()


def measure(
    every: Sequence[Contestant], python: Path, feed: Path, threads: int, rounds: int
) -> dict[str, float]:
    """The fastest call of each contestant that runs, by name."""
    best: dict[str, float] = {}
    with ExitStack() as stack:
        workers = [stack.enter_context(started(c, python, feed, threads)) for c in every]
        for _ in range(rounds):
            for each, worker in zip(every, workers, strict=True):
                if worker.poll() is None:
                    time.sleep(PAUSE)
                    best[each.name] = min(best.get(each.name, np.inf), _turn(worker))
    return best


def _turn(worker: subprocess.Popen) -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{TURN}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline() or "inf")


@click.command(help=__doc__)
@click.argument("models", type=Path, nargs=-1, required=True)
@click.option("--peer", "python", type=Path, default=Path(sys.executable))
@click.option("--threads", default=1)
@click.option("--rounds", default=20)
@click.option("--folder", type=Path)
def main(
    models: tuple[Path, ...], python: Path, threads: int, rounds: int, folder: Path | None
) -> None:
    """See the top of the file."""
    with tempfile.TemporaryDirectory() as temporary:
        room = folder or Path(temporary)
        room.mkdir(parents=True, exist_ok=True)
        found = {}
        for model in models:
            feed, samples = random_feed(model), room / f"{model.stem}.npz"
            np.savez(samples, **feed)
            every = list(contestants(model, room, feed))
            found[model.stem] = measure(every, python, samples, threads, rounds)
    names = list(dict.fromkeys(name for times in found.values() for name in times))
    lines = ([m, *(milliseconds(t.get(name)) for name in names)] for m, t in found.items())
    print(table(["model", *names], lines))


if __name__ == "__main__":
    main()
