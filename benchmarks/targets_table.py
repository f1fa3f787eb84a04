"""Small models on every target: bytes of code, weights and memory, and instructions of a run.

    python -m benchmarks.targets_table [--write]

Instructions are counted by the emulators that the tests use (Unicorn, Wasmtime: of WebAssembly);
there is none that counts them for the targets without a number. With --write the tables go into
docs/targets.md, between its markers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from afterglow.backends.cpu.target import NAMED
from tests.emulation.make import COUNTED
from tests.emulation.models import MODELS
from tests.emulation.program import EmulatedModel, bundle_of

PAGE = Path(__file__).parent.parent / "docs" / "targets.md"
BEGIN, END = "<!-- tables begin -->", "<!-- tables end -->"
COLUMNS = ("target", "code", "weights", "arena", "stack", "instructions")
HEAD = ["| " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * (len(COLUMNS) - 1)]


def main() -> None:
    """Print the tables; see the top of the file."""
    text = "\n".join(section(name) for name in MODELS)
    print(text)
    if "--write" in sys.argv:
        before, rest = PAGE.read_text().split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def section(model: str) -> str:
    """One model on all targets."""
    make = MODELS[model]
    summary = (make.__doc__ or "").rstrip(".")
    rows = [row(make(), target) for target in NAMED]
    return "\n".join([f"### {model}", "", f"{summary}.", "", *HEAD, *rows, ""])


def row(source: object, target: str) -> str:
    """One model on one target."""
    bundle = bundle_of(source, target)
    entry = bundle.entries[0]
    sizes = (bundle.code_bytes, bundle.weights.nbytes, entry.layout.size, entry.stack_bytes)
    count = ""
    if target in COUNTED:
        model = EmulatedModel(bundle)
        model.run([np.zeros(p.type.shape, p.type.dtype.numpy) for p in entry.interface.inputs])
        count = f"{model.machine.instructions:,}"
    cells = [f"`{target}`", *(f"{size:,}" for size in sizes), count]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
