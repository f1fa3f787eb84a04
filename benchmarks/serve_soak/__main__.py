"""Ask a server many things at once for some minutes: answers must be right, memory must not grow.

    python -m benchmarks.serve_soak --minutes 20 --out soak

It starts `afterglow serve` on the loopback address with models of its own, and those that
`--model` adds. Clients ask over HTTP and gRPC and check each answer against ONNX Runtime's; models
are unloaded, loaded and replaced meanwhile; other clients vanish in the middle, or send malformed
requests. Memory and latencies are written every second: soak.json, and soak.svg as a picture. The
exit status is 1 after a crash, a wrong or missing answer, an error of the server's own, or growth.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.serve_soak.picture import soak_svg
from benchmarks.serve_soak.run import Plan, soak, write_json
from benchmarks.serve_soak.tally import Tally


def main() -> None:
    """Run the load that arguments describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--malformed", type=int, default=100_000, help="malformed requests in all")
    parser.add_argument("--pause", type=float, default=0.03, help="seconds between two requests")
    parser.add_argument("--growth", type=float, default=16.0, help="most megabytes of growth")
    parser.add_argument("--model", type=Path, action="append", default=[], help="one more .onnx")
    parser.add_argument("--out", type=Path, default=Path("soak"))
    given = parser.parse_args()
    plan = Plan(
        60 * given.minutes, given.malformed, given.pause, given.growth, tuple(given.model), print
    )
    tally = soak(plan)
    write_json(tally, given.out.with_suffix(".json"))
    given.out.with_suffix(".svg").write_text(soak_svg(tally.samples), encoding="utf-8")
    print(summary(tally))
    sys.exit(bool(tally.failed))


def summary(tally: Tally) -> str:
    """What the run has found, in lines."""
    lines = [f"{count:8,}  {kind}" for kind, count in sorted(tally.counts.items())]
    answers = ", ".join(f"{count:,} {status}" for status, count in tally.statuses.most_common())
    lines.append(f"malformed requests were answered with {answers}")
    memory = [sample.megabytes for sample in tally.samples]
    lines.append(
        f"memory {memory[0]:.1f} MB at first, {memory[-1]:.1f} MB at last, at most "
        f"{max(memory):.1f}; growth after the third tenth {tally.growth():+.2f} MB"
    )
    return "\n".join([*lines, f"{tally.failed} failures", *tally.failures])


if __name__ == "__main__":
    main()
