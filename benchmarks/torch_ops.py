"""PyTorch's own op tests against our importers: right, refused, wrong or crashed, by op.

python benchmarks/torch_ops.py [--dtype float32] [--most 8] [--part 0/2] [--backend interpreter]
    [--only NAME …] [--after NAME] [--json FILE] [--core]

`--core` lists the overloads of core ATen that are not imported, and does nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from tests.frontends.torch.op_samples import (
    Outcome,
    Tally,
    calls_of,
    core_overloads,
    core_without_importer,
    full_name,
    judge_all,
    op_infos,
)


def main() -> None:
    """Print the table; see the top of the file."""
    options = _options()
    if options.core:
        _print_core()
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # PyTorch's, about its own future
    tallies = []
    for tally in _tallies(options):
        tallies.append(tally)
        _print_line(tally)
        if options.json:
            _write(options.json, tallies)
    _print_totals(tallies)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--backend", default="interpreter")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--after", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--core", action="store_true")
    return parser.parse_args()


def _print_core() -> None:
    missing = core_without_importer()
    print(f"{len(missing)} of {sum(1 for _ in core_overloads())} overloads are not imported:")
    print("\n".join(missing))


def _tallies(options: argparse.Namespace) -> Iterable[Tally]:
    dtype = getattr(torch, options.dtype)
    part, parts = map(int, options.part.split("/"))
    names = [full_name(op) for op in op_infos(dtype)]
    start = names.index(options.after) + 1 if options.after else 0
    for index, op in enumerate(op_infos(dtype)):
        name = full_name(op)
        if index < start or index % parts != part or (options.only and name not in options.only):
            continue
        tally = Tally(name)
        for outcome, reason in judge_all(op, calls_of(op, dtype, options.most), options.backend):
            tally.add(outcome, reason)
        yield tally


def _print_line(tally: Tally) -> None:
    counts = "  ".join(f"{outcome.value} {count}" for outcome, count in tally.counts.items())
    reasons = "; ".join(tally.reasons)
    print(f"{tally.name:50} {counts}  {reasons[:300]}", flush=True)


def _write(path: Path, tallies: Sequence[Tally]) -> None:
    rows = [
        {"name": t.name, "counts": {o.value: c for o, c in t.counts.items()}, "why": t.reasons}
        for t in tallies
    ]
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _print_totals(tallies: Sequence[Tally]) -> None:
    total: Counter[Outcome] = Counter()
    for tally in tallies:
        total.update(tally.counts)
    print("  ".join(f"{outcome.value}: {total[outcome]}" for outcome in Outcome))
    imported = total[Outcome.RIGHT] + total[Outcome.WRONG] + total[Outcome.CRASHED]
    if imported:
        print(f"of samples that are not refused, {total[Outcome.RIGHT] / imported:.2%} are right")


if __name__ == "__main__":
    main()
