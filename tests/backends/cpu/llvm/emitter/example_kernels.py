"""Kernels that show the vocabulary: written as kernel authors would write them."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Value,
    first_lanes,
    fma,
    larger,
    load_masked,
    reduce_max,
    reduce_sum,
    remainder,
    store_masked,
)
from afterglow.backends.cpu.llvm.math import exp
from afterglow.types.dtype import f32


def axpy(e: Emitter) -> None:
    """y = a x + y, whole vectors first, then what is left under a mask."""
    n, a = e.count("n"), e.argument("a", f32)
    x, y = e.pointer("x", f32), e.pointer("y", f32)
    lanes = e.lanes(f32)
    whole = n - remainder(n, lanes)
    with e.loop(whole, step=lanes) as i:
        y.store(fma(a, x.load(i, lanes), y.load(i, lanes)), i)
    rest = first_lanes(n - whole, lanes)
    left = fma(a, load_masked(x, rest, whole), load_masked(y, rest, whole))
    store_masked(y, left, rest, whole)


def matmul_tiles(e: Emitter, rows: int, vectors: int, depth: int) -> None:
    """c[t] += a[t] b: tiles of `rows` rows, all with one packed panel b of `vectors` vectors.

    The accumulators are carried in registers; the panel's lines are fetched ahead of their use.
    """
    tiles = e.count("tiles")
    a, b, c = e.pointer("a", f32), e.pointer("b", f32, align=64), e.pointer("c", f32)
    lanes = e.lanes(f32)
    width = vectors * lanes
    with e.loop(tiles, name="tile") as tile:
        left, out = a + tile * (rows * depth), c + tile * (rows * width)

        def step(k: Value, sums: list[Value]) -> list[Value]:
            line = b + k * width
            panel = [line.load(v * lanes, lanes, align=4 * lanes) for v in range(vectors)]
            line.prefetch(8 * width)
            result = []
            for row in range(rows):  # each factor is loaded where it is used: few are alive
                factor = (left + k).broadcast(row * depth, lanes)
                part = sums[row * vectors : (row + 1) * vectors]
                result += [fma(factor, *pair) for pair in zip(panel, part, strict=True)]
            return result

        sums = [out.load(i * lanes, lanes) for i in range(rows * vectors)]
        sums = e.fold(depth, sums, step, unroll=4, name="k")
        for i, total in enumerate(sums):
            out.store(total, i * lanes)


def softmax_rows(e: Emitter, columns: int) -> None:
    """y = exp(x - max x) / sum of them, row by row; a row is a whole number of vectors."""
    rows = e.count("rows")
    x, y = e.pointer("x", f32), e.pointer("y", f32)
    lanes = e.lanes(f32)
    with e.loop(rows, name="row") as row:
        source, out = x + row * columns, y + row * columns
        least = [e.constant(f32, float("-inf"), lanes)]
        (most,) = e.fold(
            columns, least, lambda i, m: [larger(source.load(i, lanes), m[0])], step=lanes
        )
        peak = reduce_max(most)

        def raise_(i: Value, total: list[Value]) -> list[Value]:
            power = exp(source.load(i, lanes) - peak)
            out.store(power, i)
            return [total[0] + power]

        (total,) = e.fold(columns, [e.constant(f32, 0.0, lanes)], raise_, step=lanes)
        scale = 1.0 / reduce_sum(total)
        with e.loop(columns, step=lanes) as i:
            out.store(out.load(i, lanes) * scale, i)
