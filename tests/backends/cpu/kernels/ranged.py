"""Modules with ranged extents, for tests of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.graph import Builder, Function, Module, Op
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, Extents, dims_of, ranged

BOUNDS = {
    "b": (1, 4),
    "s": (1, 300),
    "p": (0, 70),
    "n": (1, 40_000),
    "m": (0, 1100),
    "k": (50, 100),
}
"""The dimensions of the tests, with their bounds."""
RUNS: tuple[Extents, ...] = (
    {"b": 1, "s": 1, "n": 1, "k": 50},
    {"b": 3, "s": 17, "n": 16_387, "k": 67},
    {"b": 2, "s": 64, "n": 16_384, "k": 64},
    {"b": 4, "s": 299, "n": 40_000, "k": 100},
)
"""Extents around numbers of lanes and sizes of blocks, the smallest and the largest."""


def extents(text: str) -> tuple[int, ...]:
    """Extents such as `b, s, 64` or `m + s`, over the dimensions of the tests."""
    dims = {name: ranged(Dim(name, *bounds)) for name, bounds in BOUNDS.items()}
    sums = ([term.strip() for term in part.split("+")] for part in text.split(","))
    return tuple(sum(dims[t] if t in dims else int(t) for t in terms) for terms in sums)


def module_of(op: Op, *shapes: str, fused: bool = False) -> Module:
    """A module with one op; if fused, the first operand and the result are computed with."""
    module = Module()
    function = Function("main", module)
    builder = Builder(function)
    types = [TensorType(f32, extents(shape)) for shape in shapes]
    first, *rest = (function.input(f"x{number}", type) for number, type in enumerate(types))
    if fused:
        first = builder.emit(Add(), builder.emit(Relu(), first), function.input("y", types[0]))
    for number, result in enumerate(builder.emit_node(op, first, *rest).results):
        made = builder.emit(Relu(), result) if fused and number == 0 else result
        function.output(f"out{number}", made)
    return module


def check_op(
    op: Op,
    *shapes: str,
    fused: bool = False,
    runs: Sequence[Extents] = RUNS,
    threads: int | None = None,
) -> None:
    """One program computes what the op is at all those extents."""
    module = module_of(op, *shapes, fused=fused)
    dims = {dim.name for value in module.main.inputs for dim in dims_of(*value.type.shape)}
    check_ranged(module, [{name: run[name] for name in dims} for run in runs], threads=threads)
