"""The text of docs/onnx-support.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx import defs

from afterglow.frontends.onnx.frame import normal_domain, shown_domain
from afterglow.frontends.onnx.functions import has_function
from afterglow.frontends.onnx.registry import IMPORTERS
from afterglow.testing import onnx_suite
from benchmarks.onnx_placement import Placement

if TYPE_CHECKING:
    from benchmarks.onnx_support import Outcome, Version

PAGE = Path(__file__).parent.parent / "docs" / "onnx-support.md"
MOST_NAMES = 6
NOTHING = "\N{EN DASH}"
_ROW = re.compile(r"\| `(?P<op>[^`]+)` \| (?P<version>\d+) \|")


def page(
    outcomes: Sequence[Outcome],
    versions: Sequence[Version],
    older: Mapping[Version, Placement],
) -> str:
    """The whole page; `older` has what versions become that no case is about."""
    by_version: dict[Version, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.name):
        for version in outcome.versions:
            by_version.setdefault(version, []).append(outcome)
    lines = _introduction(outcomes, versions)
    for domain in sorted({domain for domain, _, _ in versions}):
        lines += ["", f"## {shown_domain(domain)}", "", *_HEAD]
        rows = [version for version in versions if version[0] == domain]
        placements = {v: _placements(v, by_version.get(v, []), older.get(v)) for v in rows}
        lines += [_row(v, by_version.get(v, []), placements) for v in rows]
    failed = sorted(outcome.name for outcome in outcomes if not all(outcome.passed.values()))
    lines += [
        "",
        "## Cases that fail",
        "",
        *(f"- `{name}`: {onnx_suite.GAPS.get(name, 'not known')}" for name in failed),
    ]
    return "\n".join(lines) + "\n"


def listed(text: str) -> list[tuple[str, str, int]]:
    """The ops and versions that a page has a row for."""
    domain, found = "", []
    for line in text.splitlines():
        if line.startswith("## "):
            domain = normal_domain(line.removeprefix("## "))
        elif row := _ROW.match(line):
            found.append((domain, row["op"], int(row["version"])))
    return found


_COLUMNS = ("op", "version", "imported", "CPU", "cases, CPU", "cases, interpreter", "ulp")
_HEAD = ["| " + " | ".join(_COLUMNS) + " |", "|---|---:|---|---|---:|---:|---:|"]


def _introduction(outcomes: Sequence[Outcome], versions: Sequence[Version]) -> list[str]:
    devices = {"CPU": "on the CPU", "INTERPRETER": "on the interpreter"}
    counts = [f"{_passed(outcomes, d)} of {len(outcomes)} {words}" for d, words in devices.items()]
    missing = [f"`{op}`" for domain, op, since in versions if not _imported(domain, op, since)]
    return [
        "# What of ONNX is supported",
        "",
        "Written by `python -m benchmarks.onnx_support --write`, which runs ONNX's own suite:",
        f"{', '.join(counts)} (version {onnx.__version__} of the package).",
        f"There are {len(versions)} versions of {len({v[:2] for v in versions})} ops. "
        f"Missing: {', '.join(missing) or 'none'}.",
        "",
        "- *imported*: by Afterglow itself, or through the *function* that the standard gives, or",
        "  not at all. What is imported the interpreter runs.",
        "- *CPU*: *native* if kernels compute the very ops that the import gives, *lowered* if",
        "  they compute simpler ones, *host* what is not machine code, and why. Moves of memory,",
        "  such as transposes, are left out. Integers that decide shapes, such as axes, are taken",
        "  as known: a model is compiled for each of their values. Where no case shows it, *see*",
        "  the nearest version that has one.",
        "- *cases*: those of the suite that pass, of those with a node of this op and version.",
        "- *ulp*: the largest error of the CPU in units in the last place of the expected value,",
        "  in cases that pass and have no other node. An element under 1/256 of the largest of its",
        "  tensor counts as so large: sums cancel. Some expected values are themselves rounded to",
        "  a few digits: an error here need not be ours.",
    ]


def _placements(
    version: Version, outcomes: Sequence[Outcome], older: Placement | None
) -> list[Placement]:
    """What a version of an op becomes, in each case that is about it alone."""
    alone = [o.placement for o in outcomes if o.alone == version and o.placement is not None]
    return alone or ([] if older is None else [older])


def _row(
    version: Version,
    outcomes: Sequence[Outcome],
    placements: Mapping[Version, Sequence[Placement]],
) -> str:
    domain, op, since = version
    alone = [outcome for outcome in outcomes if outcome.alone == version]
    errors = [outcome.ulp for outcome in alone if outcome.ulp is not None]
    cells = [
        f"`{op}`",
        str(since),
        _imported(domain, op, since) or "no",
        _placed(placements[version]) or _elsewhere(version, placements),
        *(_counted(outcomes, device) for device in ("CPU", "INTERPRETER")),
        f"{max(errors):.3g}" if errors else NOTHING,
    ]
    return "| " + " | ".join(cells) + " |"


def _imported(domain: str, op: str, since: int) -> str:
    """How a version of an op is imported; nothing if it is not."""
    if any(first <= since for first, _ in IMPORTERS.get((domain, op), [])):
        return "yes"
    return "function" if has_function(defs.get_schema(op, since, domain)) else ""


def _placed(placements: Sequence[Placement]) -> str:
    """What the cases of an op become, all together."""
    native = [p for p in placements if p.compiled and p.is_native]
    lowered = [p for p in placements if p.compiled and not p.is_native]
    host = sorted(set().union(*(p.on_host for p in placements)))
    parts = []
    if native:
        parts.append(f"native: {_names(native)}")
    if lowered:
        parts.append(f"lowered to {_names(lowered)}")
    if host:
        parts.append(f"host: {'; '.join(host[:2])}")
    if placements and not parts:
        parts.append("no code: folded, or a move of memory")
    return "; ".join(parts)


def _elsewhere(version: Version, placements: Mapping[Version, Sequence[Placement]]) -> str:
    """The version to look at for one that no case is about: the next, or else the last one."""
    domain, op, since = version
    others = [v[2] for v, found in placements.items() if v[:2] == (domain, op) and found]
    newer = [other for other in others if other > since]
    return f"see {(newer or others[::-1])[0]}" if others else NOTHING


def _names(placements: Sequence[Placement]) -> str:
    names = sorted(set().union(*(p.compiled for p in placements)))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(f"`{name}`" for name in names[:MOST_NAMES]) + more


def _counted(outcomes: Sequence[Outcome], device: str) -> str:
    return f"{_passed(outcomes, device)}/{len(outcomes)}" if outcomes else NOTHING


def _passed(outcomes: Sequence[Outcome], device: str) -> int:
    return sum(outcome.passed[device] for outcome in outcomes)
