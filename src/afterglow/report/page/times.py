"""Times of a run, by kernel and by the model's own nodes, and the roofline of its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from afterglow.instr import Instr, OpInstr, Program, ops_of, origins_of
from afterglow.ops.flops import step_flops
from afterglow.report.profile import StepTime
from afterglow.runtime.rates import Rates
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class MeasuredRun:
    """How long whole runs took, and on how many threads."""

    best: float
    median: float
    runs: int
    threads: int


def times_data(
    steps: Sequence[StepTime], shares: Sequence[dict[str, float]], measured: MeasuredRun | None
) -> dict[str, Any]:
    """Times by kernel and by model node, the longest first, against the time of a whole run.

    `shares` tells for each step which nodes of the model its time counts for.
    """
    total = sum(step.seconds for step in steps)
    return {
        "seconds": total,
        "run_seconds": None if measured is None else measured.best,
        "median_seconds": None if measured is None else measured.median,
        "runs": None if measured is None else measured.runs,
        "threads": None if measured is None else measured.threads,
        "kernels": _by_kernel(steps),
        "nodes": _by_node(steps, shares),
    }


def _by_kernel(steps: Iterable[StepTime]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for step in steps:
        empty = {"kernel": step.kernel, "steps": 0, "seconds": 0.0, "flops": 0.0, "bytes": 0}
        row = rows.setdefault(step.kernel, empty)
        row["steps"] += 1
        for name in ("seconds", "flops", "bytes"):
            row[name] += getattr(step, name)
    return sorted(rows.values(), key=lambda row: -row["seconds"])


def _by_node(steps: Sequence[StepTime], shares: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for step, nodes in zip(steps, shares, strict=True):
        for name, share in nodes.items():
            row = rows.setdefault(name, {"node": name, "kernels": [], "seconds": 0.0})
            row["seconds"] += share * step.seconds
            if step.kernel not in row["kernels"]:
                row["kernels"].append(step.kernel)
    return sorted(rows.values(), key=lambda row: -row["seconds"])


def node_shares(step: Instr) -> dict[str, float]:
    """The nodes of the model that an instruction computes, each with its share of the time.

    The share is that of the multiplications, where there are any: what is fused into a product is
    free. Otherwise all ops of the instruction count alike, and so do the nodes of one op.
    """
    members = ops_of(step)
    if not members:
        names = origins_of(step) or ("",)
        return {name: 1 / len(names) for name in names}
    work = [step_flops(member) for member in members]
    if not sum(work):
        work = [1.0] * len(members)
    return _summed(members, work)


def _summed(members: Sequence[OpInstr], work: Sequence[float]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for member, amount in zip(members, work, strict=True):
        names = member.origins or ("",)
        for name in names:
            shares[name] = shares.get(name, 0.0) + amount / sum(work) / len(names)
    return shares


def shares_of(program: Program, steps: Sequence[StepTime]) -> list[dict[str, float]]:
    """The shares of the nodes in each timed step of a program."""
    return [_joined_shares(program, (step.place, *step.others)) for step in steps]


def _joined_shares(program: Program, places: Sequence[int]) -> dict[str, float]:
    """The shares of the nodes in instructions that are one launch, which count alike."""
    shares: dict[str, float] = {}
    for place in places:
        for name, share in node_shares(program.body[place]).items():
            shares[name] = shares.get(name, 0.0) + share / len(places)
    return shares


def saved_shares(steps: Sequence[StepTime]) -> list[dict[str, float]]:
    """The same for a compiled model, whose steps only say which nodes they come from."""
    named = [step.origins or ("",) for step in steps]
    return [{name: 1 / len(names) for name in names} for names in named]


def roofline_data(rates: Rates, threads: int) -> dict[str, Any]:
    """The roofs of the device: its peak, and the bandwidth of each level of memory."""
    return {
        "peak_flops": rates.flops,
        "measured": not rates.is_stated,
        "threads": threads,
        "levels": [[level.nbytes, level.bandwidth] for level in rates.levels],
    }
