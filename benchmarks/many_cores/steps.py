"""The time of each step of a model on one thread and on many: which steps do not scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.many_cores.clock import Clock
from benchmarks.many_cores.cores import Cores
from benchmarks.many_cores.models import Model

Steps = dict[tuple[str, ...], dict[str, Any]]
"""Steps by the model's nodes that they compute, and how often those were seen before."""


def step_times(model: Model, threads: int, cores: Cores, clock: Clock) -> Steps:
    """What `afterglow profile` says, on the cores that a number of threads is pinned to."""
    words = ["profile", str(model.path), "--threads", str(threads), "--repeat", "20", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "afterglow", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        os.sched_setaffinity(process.pid, cores.first(threads))
        try:
            text, _ = process.communicate(timeout=clock.at_most(120))
        except subprocess.TimeoutExpired:
            process.kill()
            return {}
    steps = json.loads(text)["steps"] if process.returncode == 0 else []
    found: Steps = {}
    for step in sorted(steps, key=lambda step: step["place"]):
        key = tuple(step["origins"])
        while key in found:
            key = (*key, "again")
        found[key] = step
    return found


def step_rows(few: Mapping[Any, Any], many: Mapping[Any, Any], times: int) -> list[dict[str, Any]]:
    """Steps that both profiles have, those first that lose most by not scaling."""
    rows = [
        {
            "nodes": list(key),
            "kernel": many[key]["kernel"],
            "algorithm": {"one": few[key]["plan"], "many": many[key]["plan"]},
            "one_us": few[key]["seconds"] * 1e6,
            "many_us": many[key]["seconds"] * 1e6,
            "efficiency": few[key]["seconds"] / max(many[key]["seconds"], 1e-9) / times,
            "units": many[key].get("units"),
        }
        for key in few.keys() & many.keys()
    ]
    return sorted(rows, key=lambda row: row["one_us"] / times - row["many_us"])


def step_lines(model: str, rows: list[dict[str, Any]], times: int, top: int = 25) -> Iterator[str]:
    """A table of the steps that lose most."""
    one, many = (sum(row[key] for row in rows) for key in ("one_us", "many_us"))
    yield f"steps of {model}: {one:.0f} us on 1 thread, {many:.0f} on {times}"
    yield f"{'kernel':44} {'algorithm':24} {'units':>6} {'t1 us':>9} {f't{times} us':>9} {'eff':>5}"
    for row in rows[:top]:
        names = row["algorithm"]
        same = names["one"] == names["many"]
        plan = names["many"] if same else f"{names['one']} -> {names['many']}"
        numbers = f"{row['one_us']:9.1f} {row['many_us']:9.1f} {row['efficiency']:5.2f}"
        units = "-" if row["units"] is None else row["units"]
        yield f"{row['kernel'][:44]:44} {plan[:24]:24} {units:>6} {numbers}"
