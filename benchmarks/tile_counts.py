"""What models do with AMX's tiles, counted on a machine that need not have them.

A model is compiled for this machine as if it had tiles, with the caches of a server, and run once
on one thread: the instructions for tiles are emulated and counted. Outputs are compared with those
of the model as this machine runs it. Cycles are estimates: a row of a product takes one, two rows
of a load take one, and setting up shapes SETUP. Products, loads and vectors have units of their
own, so they do not add up; vectors and waiting for memory are not counted.

    python -m benchmarks.tile_counts FILE.onnx …            totals
    python -m benchmarks.tile_counts FILE.onnx … --kernels  each kernel, too
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

import afterglow as ag
from afterglow.backends.cpu import Target
from afterglow.backends.cpu.target.target import Caches
from afterglow.types import Array
from tests.emulation.tiles.instructions import COUNTS
from tests.emulation.tiles.models import compiled_with_tiles

SERVER = Caches(l1=48 << 10, l2=2 << 20, l3=64 << 20)
SETUP = 204
"""Cycles of `ldtilecfg`, in which no product is under way."""
ROWS_OF_LOAD = 2
COLUMNS = ("tdpbusd", "tdpbf16ps", "tileloadd64", "tilestored64", "ldtilecfg")
HEAD = f"{'kernel':44}" + "".join(f"{name:>13}" for name in COLUMNS)


def main() -> None:
    """Count what each model does."""
    parser = argparse.ArgumentParser(description="Count what models do with tiles.")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--kernels", action="store_true", help="print each kernel, too")
    parser.add_argument("--precision", default="float32")
    arguments = parser.parse_args()
    for path in arguments.models:
        report(path, arguments.precision, kernels=arguments.kernels)


def report(path: Path, precision: str, *, kernels: bool) -> None:
    """Run a model once, and print what was counted."""
    host = Target.host()
    model, tiles = compiled_with_tiles(
        path, replace(host, caches=SERVER, cores=1), precision=precision
    )
    plain = ag.compile(path, threads=1, cache=False, precision=precision)
    inputs = [example(info.shape, info.dtype.numpy) for info in plain.inputs]
    results = model.run(inputs)
    tiles.check()
    wanted = plain.run(None, dict(zip((info.name for info in plain.inputs), inputs, strict=True)))
    same = all(np.array_equal(a, b) for a, b in zip(results, wanted, strict=True))
    print(f"{path.name}: outputs {'are' if same else 'differ from'} those of this machine")
    print(f"{HEAD}{'cycles':>12}{'load cycles':>12}")
    for name, counts in tiles.counts.items():
        if kernels:
            print_line(name, dict(zip(COUNTS, counts.tolist(), strict=True)))
    print_line("total", {name: tiles.count(name) for name in COUNTS})


def print_line(name: str, counts: Mapping[str, int]) -> None:
    """Print the counts of a kernel, and the cycles that they take at least."""
    products = counts["multiplied rows"] + SETUP * counts["ldtilecfg"]
    loads = counts["loaded rows"] // ROWS_OF_LOAD
    numbers = "".join(f"{counts[column]:13,}" for column in COLUMNS)
    print(f"{name[:43]:44}{numbers}{products:12,}{loads:12,}")


def example(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Numbers of any kind for an input."""
    rng = np.random.default_rng(0)
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


if __name__ == "__main__":
    main()
