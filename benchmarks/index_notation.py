"""Ops in index notation against built-in ops, or C by hand.

Run it with `python benchmarks/index_notation.py`.
Each pair is run in turns on one thread; the table has the least time of either, in CPU time, which
other load on the machine hardly changes. C is compiled by `zig cc -O3 -march=native -ffast-math`.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import afterglow as ag
from afterglow.graph import Builder, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.einsum import Einsum
from afterglow.ops.functions import Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.softmax import Softmax
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32

LIMIT = 1.5
"""How much longer than its reference an op may take."""


@dataclass(frozen=True)
class Entry:
    """An op as text, the shapes of its operands, and what it is compared with.

    `builtin` emits the op that the compiler has; `c` is the body of a function of `o` and the
    operands, which are arrays of these shapes.
    """

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    builtin: Callable[..., Value] | None = None
    c: str = ""


def _conv(b: Builder, x: Value, w: Value) -> Value:
    return b.emit(Conv((1, 1), (0,) * 4, (1, 1)), x, b.emit(Transpose((3, 0, 1, 2)), w))


def _depthwise(b: Builder, x: Value, w: Value) -> Value:
    rows = b.emit(Reshape((*w.type.shape[:0], 64, 3, 3, 1)), b.emit(Transpose((2, 0, 1)), w))
    return b.emit(Conv((1, 1), (0,) * 4, (1, 1), 64), x, rows)


ENTRIES = (
    Entry(
        "convolution",
        "o[n,i,j,c] = sum(h,w,d) x[n,i+h,j+w,d] * k[h,w,d,c]",
        ((1, 58, 58, 64), (3, 3, 64, 64)),
        builtin=_conv,
    ),
    Entry(
        "depthwise convolution",
        "o[n,i,j,c] = sum(h,w) x[n,i+h,j+w,c] * k[h,w,c]",
        ((1, 114, 114, 64), (3, 3, 64)),
        builtin=_depthwise,
    ),
    Entry(
        "function of a factor",
        "o[b,i,j] = sum(k) a[b,i,k] * tanh(w[k,j])",
        ((4, 128, 256), (256, 256)),
        builtin=lambda b, a, w: b.emit(MatMul(), a, b.emit(Tanh(), w)),
    ),
    Entry(
        "bilinear form",
        "o[b,c] = sum(k,l) x[b,k] * w[c,k,l] * y[b,l]",
        ((64, 64), (64, 64, 64), (64, 64)),
        builtin=lambda b, x, w, y: b.emit(Einsum("bk,ckl,bl->bc"), x, w, y),
    ),
    Entry(
        "softmax",
        "m[i] = max(k) x[i,k]; e[i,k] = exp(x[i,k] - m[i]); o[i,j] = e[i,j] / sum(k) e[i,k]",
        ((512, 512),),
        builtin=lambda b, x: b.emit(Softmax(-1), x),
    ),
    Entry(
        "heat step",
        "o[i,j] = x[i+1,j+1] + 0.1 * (x[i,j+1] + x[i+2,j+1] + x[i+1,j] + x[i+1,j+2]"
        " - 4 * x[i+1,j+1])",
        ((1024, 1024),),
        c="""for (int i = 0; i < 1022; i++) for (int j = 0; j < 1022; j++)
            o[i][j] = x[i+1][j+1] + 0.1f * (x[i][j+1] + x[i+2][j+1] + x[i+1][j] + x[i+1][j+2]
                                            - 4 * x[i+1][j+1]);""",
    ),
    Entry(
        "pairwise distance",
        "o[i,j] = sum(k) (a[i,k] - b[j,k])**2",
        ((512, 64), (512, 64)),
        c="""for (int i = 0; i < 512; i++) for (int j = 0; j < 512; j++) {
            float s = 0;
            for (int k = 0; k < 64; k++) s += (a[i][k] - b[j][k]) * (a[i][k] - b[j][k]);
            o[i][j] = s;
        }""",
    ),
    Entry(
        "max-plus product",
        "o[i,j] = max(k) (a[i,k] + b[k,j])",
        ((256, 256), (256, 256)),
        c="""for (int i = 0; i < 256; i++) {
            for (int j = 0; j < 256; j++) o[i][j] = a[i][0] + b[0][j];
            for (int k = 1; k < 256; k++) for (int j = 0; j < 256; j++) {
                float t = a[i][k] + b[k][j];
                o[i][j] = t > o[i][j] ? t : o[i][j];
            }
        }""",
    ),
    Entry(
        "local mean, 5 x 5",
        "o[i,j] = mean(p in 0:5, q in 0:5) x[i+p,j+q]",
        ((512, 512),),
        c="""for (int i = 0; i < 508; i++) for (int j = 0; j < 508; j++) {
            float s = 0;
            for (int p = 0; p < 5; p++) for (int q = 0; q < 5; q++) s += x[i+p][j+q];
            o[i][j] = s * 0.04f;
        }""",
    ),
    Entry(
        "dilation of an image",
        "o[i,j] = max(p,q) (x[i+p,j+q] + k[p,q])",
        ((512, 512), (3, 3)),
        c="""for (int i = 0; i < 510; i++) for (int j = 0; j < 510; j++) {
            float s = x[i][j] + k[0][0];
            for (int p = 0; p < 3; p++) for (int q = 0; q < 3; q++) {
                float t = x[i+p][j+q] + k[p][q];
                s = t > s ? t : s;
            }
            o[i][j] = s;
        }""",
    ),
)


def compiled(entry: Entry, emit: Callable[..., Value]) -> ag.CompiledModel:
    """A model on one thread; operands are inputs."""
    function = ag.Function("main")
    names = ag.comprehension(entry.text).operands
    inputs = [
        function.input(name, TensorType(f32, shape))
        for name, shape in zip(names, entry.shapes, strict=True)
    ]
    function.output("o", emit(Builder(function), *inputs))
    return ag.compile(function.module, threads=1, cache=False)


def by_hand(entry: Entry, shape: tuple[int, ...], folder: Path) -> Callable[..., Array]:
    """The C function of an entry, as a function of arrays."""
    names = ("o", *ag.comprehension(entry.text).operands)
    parameters = (
        ("" if name == "o" else "const ")
        + f"float {name}[restrict {shape[0]}]"
        + "".join(f"[{extent}]" for extent in shape[1:])
        for name, shape in zip(names, (shape, *entry.shapes), strict=True)
    )
    source, library = folder / "kernel.c", folder / f"{entry.name.split()[0]}.so"
    source.write_text(f"void kernel({', '.join(parameters)}) {{\n{entry.c}\n}}\n")
    flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
    command = [sys.executable, "-m", "ziglang", "cc", *flags, str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    kernel = ctypes.CDLL(str(library)).kernel
    result = np.empty(shape, np.float32)

    def run(*arrays: Array) -> Array:
        kernel(*(ctypes.c_void_p(array.ctypes.data) for array in (result, *arrays)))
        return result

    return run


def seconds(run: Callable[..., object], arrays: list[Array]) -> float:
    """CPU time of one call."""
    start = time.thread_time()
    run(*arrays)
    return time.thread_time() - start


def measure(entry: Entry, folder: Path, turns: int = 60) -> tuple[float, float]:
    """The least time of the op in index notation, and of its reference."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) for shape in entry.shapes]
    op = ag.comprehension(entry.text)
    ours = compiled(entry, lambda b, *operands: b.emit(op, *operands))
    result = ours(*arrays)
    if entry.builtin is None:
        other: Callable[..., Array] = by_hand(entry, result.shape, folder)
    else:
        other = compiled(entry, entry.builtin)
    np.testing.assert_allclose(result, other(*arrays), rtol=1e-3, atol=1e-3)
    pairs = [(seconds(ours, arrays), seconds(other, arrays)) for _ in range(turns)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def main() -> int:
    """Print the table; the exit status is 1 if an op is slower than the limit."""
    print("| op | index notation, ms | reference, ms | ratio | reference |")
    print("|---|---:|---:|---:|---|")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for entry in ENTRIES:
            ours, other = measure(entry, Path(folder))
            kind = "C" if entry.builtin is None else "built in"
            worst = max(worst, ours / other)
            print(
                f"| {entry.name} | {ours * 1e3:.3f} | {other * 1e3:.3f} "
                f"| {ours / other:.2f} | {kind} |"
            )
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
