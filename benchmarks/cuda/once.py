"""Measures everything in one call on a machine with a GPU, in under ten minutes.

    python -m benchmarks.cuda.once [--seconds 570] [--engines afterglow,inductor]

In turn: what a run costs the host, networks beside their peers (those that are not installed are
left out, with the reason), a cold start, and with the time that is left ONNX's own tests. What each
says goes to files in $OUT, or build/, too; a part that fails or takes too long leaves the others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cuda.gpu import gpu

PEERS = "afterglow,inductor,onnxruntime,tensorrt"
COLD = "resnet50"
LEAST = 20
"""Seconds without which no part is begun."""
END = 15
"""Seconds in which what is under way ends."""


def main() -> None:
    """Measure all parts, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.once")
    parser.add_argument("--seconds", type=float, default=570, help="for all parts together")
    parser.add_argument("--engines", default=PEERS, help="as of benchmarks.cuda")
    parser.add_argument("--jobs", type=int, default=12)
    options = parser.parse_args()
    print(gpu().name)
    until = time.monotonic() + options.seconds
    folder = Path(os.environ.get("OUT", "build"))
    saved = folder / "saved"
    saved.mkdir(parents=True, exist_ok=True)
    jobs = str(options.jobs)
    _part("host", [], folder, until, 60)
    models = ["--engines", options.engines, "--workers", jobs, "--save", str(saved)]
    deadline = 0.35 * options.seconds
    _part(
        "", [*models, "--deadline", f"{deadline:.0f}"], folder, until, deadline + 60, name="models"
    )
    for file in sorted(saved.glob(f"{COLD}_1.agc")):
        _part("cold", [str(file)], folder, until, 40)
        file.unlink()
    left = until - time.monotonic() - END
    _part("suite", ["--seconds", f"{left:.0f}", "--jobs", jobs], folder, until, left + END)


def _part(
    module: str,
    arguments: Sequence[str],
    folder: Path,
    until: float,
    most: float,
    name: str = "",
) -> None:
    """Run a module of this folder for so many seconds at most, and keep what it prints."""
    name = name or module
    seconds = min(most, until - time.monotonic())
    print(f"== {name}", flush=True)
    if seconds < LEAST:
        print("no time is left")
        return
    words = [sys.executable, "-m", f"benchmarks.cuda.{module}".rstrip("."), *arguments]
    began = time.monotonic()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
        said, failed = done.stdout, done.stderr[-3000:] if done.returncode else ""
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode() if isinstance(error.stdout, bytes) else ""
        failed = f"not done after {seconds:.0f} s"
    (folder / f"{name}.txt").write_text(f"{said}{failed}")
    print(f"{said}{failed}\n({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
