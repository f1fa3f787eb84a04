"""Writes a page of what was tested and measured on the GPU of this machine.

    python -m benchmarks.cuda.page build/cuda.xml [build/cuda.jsonl] > docs/cuda-results.md

The first file is pytest's report of the conformance kit, the second the rows of `benchmarks.cuda`.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.cuda.__main__ import table
from benchmarks.cuda.gpu import gpu


def main() -> None:
    """Print the page."""
    report, *rows = map(Path, sys.argv[1:])
    print("\n".join(page(report, [row for row in rows if row.exists()])))


def page(report: Path, rows: list[Path]) -> list[str]:
    """The lines of the page."""
    facts = gpu()
    today = datetime.now(UTC).date()
    lines = [
        "# Results on a GPU",
        "",
        f"{facts.name}, driver for CUDA {facts.driver}, {today}.",
        "",
    ]
    lines += [f"Conformance kit: {_counted(report)}.", ""]
    for path in rows:
        lines += table([json.loads(line) for line in path.read_text().splitlines()])
    return lines


def _counted(report: Path) -> str:
    """How many tests passed, failed and were left out, and the names of those that failed."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    failed: list[str] = []
    for suite in suites:
        for name in counts:
            counts[name] += int(suite.get(name, 0))
        failed += [
            str(case.get("name"))
            for case in suite.iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None
        ]
    wrong = counts["failures"] + counts["errors"]
    right = counts["tests"] - wrong - counts["skipped"]
    text = f"{right:,} of {right + wrong:,} right, {counts['skipped']:,} left out"
    return text + (f"; wrong: {', '.join(failed)}" if failed else "")


if __name__ == "__main__":
    main()
