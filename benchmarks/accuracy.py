"""The table of docs/accuracy.md: the errors of algorithms on layers.

python benchmarks/accuracy.py [--write]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.backends.cpu.accuracy import LAYERS, errors

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
BEGIN, END = "<!-- table begins -->", "<!-- table ends -->"


def main() -> None:
    """Print the table; see the top of the file."""
    lines = ["| layer | algorithm | error |", "|---|---|---:|"]
    for layer in LAYERS:
        seen: set[str] = set()
        for name, error in errors(layer):
            kind = name.split(" of ")[0]  # all tiles form the same sums
            if kind not in seen:
                shown = kind if seen else f"**{kind}**"
                lines.append(f"| {'' if seen else layer} | {shown} | {error:.1e} |")
            seen.add(kind)
    table = "\n".join(lines)
    print(table)
    if "--write" in sys.argv:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
