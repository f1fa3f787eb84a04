"""Memory of models: what each step of planning saves, and what ONNX Runtime needs.

    python benchmarks/memory_table.py FOLDER [--write]

One row for each .onnx file in FOLDER. Activations of ONNX Runtime are measured: the growth of the
peak resident memory of a fresh process from just before its first run to just after (Linux only).
With --write the table goes into docs/memory.md, between its markers.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.graph import Module
from afterglow.instr import Copy, Program
from afterglow.lowering import select_instructions
from afterglow.memory import (
    drop_dead_stores,
    form_stacks,
    place_lifetimes,
    plan_memory,
    remove_copies,
    share_buffers,
)

PAGE = Path(__file__).parent.parent / "docs" / "memory.md"
BEGIN, END = "<!-- table begins -->", "<!-- table ends -->"
COLUMNS = (
    *("model", "sum of all", "shared", "stacked", "bound", "arena / bound"),
    *("copies", "arena + I/O", "ONNX Runtime"),
)
HEAD = ["| " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * (len(COLUMNS) - 1)]


def main() -> None:
    """Print the table; see the top of the file."""
    if sys.argv[1:2] == ["--measure"]:
        print(measure(sys.argv[2]))
        return
    rows = [row(path) for path in sorted(Path(sys.argv[1]).glob("*.onnx"))]
    table = "\n".join([*HEAD, *rows])
    print(table)
    if "--write" in sys.argv:
        before, rest = PAGE.read_text().split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def row(path: Path) -> str:
    """One model."""
    stages = Stages(Options())
    imported, _ = open_source(path).load(stages.options)
    module = stages.lower(stages.optimise(imported))
    naive = planned(module, share=False, stack=False).total_bytes
    shared = planned(module, share=True, stack=False).arena_bytes
    program, plan = stages.plan(module)
    io = sum(buffer.type.nbytes for buffer in (*program.inputs, *program.outputs))
    peer = subprocess.run(
        [sys.executable, __file__, "--measure", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    cells = [
        path.stem,
        kib(naive),
        kib(shared),
        kib(plan.arena_bytes),
        kib(plan.lower_bound_bytes),
        f"{plan.arena_bytes / max(plan.lower_bound_bytes, 1):.3f}",
        str(copies(program)),
        kib(plan.arena_bytes + io),
        kib(int(peer.stdout.split()[-1])),
    ]
    return "| " + " | ".join(cells) + " |"


def planned(module: Module, *, share: bool, stack: bool) -> object:
    """The plan with some of the steps."""
    program = select_instructions(module.main)
    if share:
        remove_copies(program)
        drop_dead_stores(program)
    if stack:
        form_stacks(program)
    if share:
        share_buffers(program)
    place_lifetimes(program)
    return plan_memory(program)


def copies(program: Program) -> int:
    """How many copy instructions are left."""
    return sum(isinstance(step, Copy) for step in program.body)


def kib(count: int) -> str:
    """Bytes in KiB."""
    return f"{count / 1024:,.0f}"


def measure(path: str) -> int:
    """Bytes by which the first run of ONNX Runtime, with one thread, raises the peak."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    rng = np.random.default_rng(0)
    feed = {info.name: random(rng, info) for info in session.get_inputs()}
    ctypes.CDLL(None).malloc_trim(0)  # give back what loading freed, lest the run reuses it unseen
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = status("VmRSS")
    outputs = session.run(None, feed)
    grown = status("VmHWM") - before
    given = sum(array.nbytes for array in (*feed.values(),))
    del outputs
    return grown + given


def random(rng: np.random.Generator, info: object) -> np.ndarray:
    """An input of the model."""
    kind = {"tensor(float)": np.float32, "tensor(int64)": np.int64}[info.type]
    if kind is np.int64:
        return np.zeros(info.shape, np.int64)
    return rng.standard_normal(info.shape).astype(kind)


def status(key: str) -> int:
    """A line of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


if __name__ == "__main__":
    main()
