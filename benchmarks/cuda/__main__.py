"""Times networks on the GPU of this machine: Afterglow and its peers in one run, in turns.

    python -m benchmarks.cuda [--names resnet50,bert_base_128] [--batches 1,32] [--tune 20]

Needs PyTorch with CUDA, torchvision and transformers; nothing is downloaded. Every network has a
process of its own, in which all engines make it ready, at the same time as others; then one process
after the other measures, engines in turns: the median of replays of one CUDA graph, in f16.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

NAMES = "resnet50,bert_base_128,mobilenet_v2,efficientnet_b0,vit_b_16,gpt2_decode"
ONLY_ONE = ("gpt2_decode",)
"""Networks that have no batches."""
OURS = "afterglow"


def main() -> None:
    """Measure, and print a table."""
    options = _options()
    jobs = [*_jobs(options)]
    with ThreadPoolExecutor(options.workers) as pool:
        workers = [*pool.map(lambda job: _started(job, options.deadline), jobs)]
    rows = [_measured(worker, ready, options) for worker, ready in workers]
    target = Path(os.environ.get("OUT", "build")) / "cuda.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print("\n".join(table(rows)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda")
    parser.add_argument("--names", default=NAMES, help="networks, with commas")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument(
        "--engines",
        default=f"{OURS},inductor",
        help="also max-autotune, onnxruntime, tensorrt, eager; what is not installed is left out",
    )
    parser.add_argument("--precision", help="of models given in f32; else they are in f16")
    parser.add_argument("--tune", type=float, default=0, help="seconds to measure plans, a network")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--replays", type=int, default=30, help="of each engine in a round")
    parser.add_argument("--workers", type=int, default=12, help="networks made ready at a time")
    parser.add_argument("--deadline", type=float, default=420, help="seconds to make ready")
    parser.add_argument("--save", default=None, help="a folder for the compiled models")
    parser.add_argument("--cache", default=None, help="a folder for compiled kernels")
    return parser.parse_args()


def _jobs(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in options.names.split(","):
        for batch in map(int, options.batches.split(",")):
            if batch == 1 or name not in ONLY_ONE:
                yield {
                    "name": name,
                    "batch": batch,
                    "engines": options.engines.split(","),
                    "precision": options.precision,
                    "tune": options.tune,
                    "cache": options.cache or False,
                    "save": options.save and f"{options.save}/{name}_{batch}.agc",
                }


def _started(
    job: dict[str, Any], deadline: float
) -> tuple[subprocess.Popen[str] | None, dict[str, Any]]:
    """A worker, and what it says once it is ready; none if it takes too long."""
    words = [sys.executable, "-m", "benchmarks.cuda.worker", json.dumps(job)]
    worker = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    began = time.monotonic()
    with ThreadPoolExecutor(1) as waiting:
        line = waiting.submit(worker.stdout.readline)
        try:
            said = line.result(deadline)
        except TimeoutError:
            worker.kill()
            said = ""
    took = time.monotonic() - began
    if said:
        print(f"{job['name']} batch {job['batch']}: ready in {took:.0f} s: {said.strip()}")
        return worker, json.loads(said)
    errors = worker.communicate()[1] if worker.poll() is None else worker.stderr.read()
    print(f"{job['name']} batch {job['batch']}: not ready after {took:.0f} s\n{errors[-1500:]}")
    return None, {"name": job["name"], "batch": job["batch"], "failed": {"worker": errors[-500:]}}


def _measured(
    worker: subprocess.Popen[str] | None, ready: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """What a worker measured, beside what it said before; it ends then."""
    if worker is None:
        return ready
    command = json.dumps({"rounds": options.rounds, "replays": options.replays})
    said, _ = worker.communicate(command + "\n")
    return {**ready, "times": json.loads(said.splitlines()[-1]) if said.strip() else {}}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line a network: microseconds of each engine, and the ratio to the best other one."""
    lines = ["| network | batch | us of each engine | ratio to the best | least, largest | error |"]
    lines.append("|---|---:|---|---:|---|---:|")
    ratios = []
    for row in rows:
        times = {name: median(found) for name, found in row.get("times", {}).items()}
        said = ", ".join(f"{name} {time:.0f}" for name, time in times.items())
        others = {name: time for name, time in times.items() if name != OURS}
        if OURS not in times or not others:
            lines.append(f"| {row['name']} | {row['batch']} | {said} | - | {row['failed']} | |")
            continue
        said += "".join(f"; no {name}: {why}" for name, why in row.get("failed", {}).items())
        best = min(others, key=others.__getitem__)
        rounds = [a / b for a, b in zip(row["times"][OURS], row["times"][best], strict=True)]
        ratio = times[OURS] / others[best]
        ratios.append(ratio)
        spread = f"{min(rounds):.2f}, {max(rounds):.2f}"
        error = f"{row[OURS]['error']:.1e}, {best} {row[best]['error']:.1e}"
        lines.append(
            f"| {row['name']} | {row['batch']} | {said} | {ratio:.2f} | {spread} | {error} |"
        )
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append(f"\nGeometric mean {mean:.2f}, the largest {max(ratios):.2f}.")
    return lines


if __name__ == "__main__":
    main()
