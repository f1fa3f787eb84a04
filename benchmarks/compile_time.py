"""Time and peak memory of compiling models, without a cache, in processes of their own.

    python -m benchmarks.compile_time [MODEL.onnx …] [--times 3] [--check]

The time is that of `import afterglow` and `afterglow.compile`, the best of several processes;
memory is the most that the process had, its libraries and the pages of the model's file included.
Processes find the bytecode of all modules, as those of an installed package do, in a folder that
a first process fills, whatever the environment says about writing bytecode.
Times are also told in yardsticks: what this machine takes to compile some modules of Python's own
library to bytecode. With `--check`, a model that takes more yardsticks, or more memory for its
file, than `LIMITS` allows is listed, and the exit status is 1.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import click

MB = 1e6

CODE = """
import json, resource, sys, time
began = time.perf_counter()
import afterglow
afterglow.compile(sys.argv[1], cache=False)
seconds = time.perf_counter() - began
unit = 1 if sys.platform == "darwin" else 1024
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
print(json.dumps([seconds, peak]))
"""
"""What a process does: it compiles a model, and says how long that took and its peak memory."""

MODULES: tuple[ModuleType, ...] = (inspect, typing, subprocess)
"""Modules that the yardstick compiles."""


@dataclass(frozen=True)
class Limit:
    """The most that compiling a model may take: yardsticks of time, and bytes of memory.

    Memory is `per_byte` times the file, and `more` bytes for Python, NumPy and LLVM.
    """

    yardsticks: float
    per_byte: float
    more: float = 150 * MB

    def problems(self, cost: Cost, yardstick: float) -> list[str]:
        """What exceeds the limit."""
        found = []
        if cost.seconds > self.yardsticks * yardstick:
            found.append(f"{cost.seconds / yardstick:.1f} yardsticks, allowed {self.yardsticks}")
        allowed = self.per_byte * cost.file + self.more
        if cost.peak > allowed:
            found.append(f"{cost.peak / MB:.0f} MB of memory, allowed {allowed / MB:.0f}")
        return found


LIMITS = {
    "mobilenetv2": Limit(29, 2.4),
    "resnet50": Limit(41, 2),
    "bert_base_128": Limit(32, 1.85),
    "vgg19": Limit(43, 1.6),
    "densenet121": Limit(84, 3.3),
    "efficientnet_b0": Limit(49, 2.5),
}
"""By the name of the model's file, what was measured on a quiet machine, with a quarter more time,
and a twelfth more memory, which differs little from run to run."""


@dataclass(frozen=True)
class Cost:
    """What compiling a model took."""

    model: str
    file: int
    seconds: float
    peak: float

    def row(self, yardstick: float) -> str:
        """The row of a table."""
        size = f"{self.file / MB:.0f} | {self.peak / MB:.0f}"
        return f"| {self.model} | {self.seconds:.2f} | {self.seconds / yardstick:.1f} | {size} |"


def measure(path: Path, times: int) -> Cost:
    """The best time and the least peak of several processes that compile a model."""
    with tempfile.TemporaryDirectory() as bytecode:
        _, *found = [_compile(path, bytecode) for _ in range(1 + times)]
    seconds, peaks = zip(*found, strict=True)
    return Cost(path.stem, path.stat().st_size, min(seconds), min(peaks))


def _compile(path: Path, bytecode: str) -> list[float]:
    """Seconds and bytes of a process that compiles a model and keeps bytecode in a folder."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    shown = subprocess.run(
        [sys.executable, "-c", CODE, str(path)],
        check=True,
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPYCACHEPREFIX": bytecode},
    )
    found: list[float] = json.loads(shown.stdout)
    return found


def yardstick(times: int = 7) -> float:
    """Seconds that this machine takes to compile some modules to bytecode, at best."""
    texts = [inspect.getsource(module) for module in MODULES]
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        for text in texts:
            compile(text, "yardstick", "exec")
        best = min(best, time.perf_counter() - began)
    return best


def exceeded(costs: Sequence[Cost], unit: float) -> list[str]:
    """A line for each model that takes more than its limit."""
    lines = []
    for cost in costs:
        limit = LIMITS.get(cost.model)
        problems = [] if limit is None else limit.problems(cost, unit)
        lines += [f"{cost.model}: {'; '.join(problems)}"] if problems else []
    return lines


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--times", default=3, show_default=True, help="Processes for each model.")
@click.option("--check", is_flag=True, help="Fail if a model takes more than its limit.")
def main(models: tuple[Path, ...], times: int, check: bool) -> None:
    """Measure how long compiling takes, and how much memory."""
    unit = yardstick()
    print(f"yardstick {unit * 1e3:.1f} ms\n")
    print("| model | compile, s | yardsticks | file, MB | peak memory, MB |\n|---|---|---|---|---|")
    costs = []
    for path in models:
        costs.append(measure(path, times))
        print(costs[-1].row(unit), flush=True)
    if not check:
        return
    if not any(cost.model in LIMITS for cost in costs):
        raise click.ClickException("none of the models has a limit: nothing was guarded")
    lines = exceeded(costs, unit)
    print("\n".join(["", *lines]) if lines else "\nall within their limits")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
