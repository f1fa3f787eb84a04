"""Attention with ranged numbers of queries and keys: one program, versions chosen as it runs."""

from __future__ import annotations

import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.kernels.attention.problem import problem_of
from afterglow.backends.cpu.kernels.attention.versions import attention_algorithm
from afterglow.graph import Builder, Function, Module
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.activation import Relu
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import Add
from afterglow.ops.movement import Reshape, Transpose
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import TensorType
from afterglow.types.dtype import DType, boolean, f32
from afterglow.types.extent import UndecidedExtentError
from tests.backends.cpu.kernels.ranged import extents

LENGTHS = [{"b": 1 + s % 4, "s": s} for s in (1, 2, 7, 8, 13, 16, 17, 32, 45, 300)]
PASTS = ((0, 1), (600, 1), (5, 9), (493, 20), (1100, 33))
STEPS = [{"m": past} for past in (0, 2, 3, 4, 14, 15, 16, 62, 511, 1100)]


def module_of(
    q: str, k: str, mask: str = "", kind: DType = f32, *, causal: bool = False, fused: bool = False
) -> Module:
    """Attention with operands [batch, heads, rows, columns]; steps work on its result if fused."""
    module = Module()
    function = Function("main", module)
    builder = Builder(function)
    shapes = {"q": q, "k": k, "v": k}
    given = [function.input(n, TensorType(f32, extents(shape))) for n, shape in shapes.items()]
    if mask:
        given.append(function.input("mask", TensorType(kind, extents(mask))))
    made = builder.emit(Attention(0.25, causal), *given)
    if fused:
        made = builder.emit(Relu(), builder.emit(Add(), made, function.input("x", made.type)))
    function.output("out", made)
    return module


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("mask", "kind"),
    [("", f32), ("b, 1, 1, s", f32), ("b, 4, s, s", f32), ("s, s", boolean), ("b,1,1,s", boolean)],
)
def test_as_many_queries_as_keys(mask: str, kind: DType, fused: bool) -> None:
    check_ranged(module_of("b, 4, s, 24", "b, 2, s, 24", mask, kind, fused=fused), LENGTHS)


def test_causal_masks() -> None:
    check_ranged(module_of("b, 2, s, 16", "b, 2, s, 16", causal=True), LENGTHS)


def test_threads_share_a_ranged_number_of_heads_and_blocks() -> None:
    module = module_of("b, 4, s, 64", "b, 4, s, 64", "b, 1, 1, s", fused=True)
    check_ranged(module, LENGTHS, threads=2)


def test_either_number_alone_is_ranged() -> None:
    check_ranged(module_of("b, 4, s, 24", "b, 2, 50, 24", "b, 1, 1, 50"), LENGTHS)
    for queries in ("5", "12", "40"):
        q, mask = f"b, 4, {queries}, 24", f"b, 1, {queries}, s"
        check_ranged(module_of(q, "b, 4, s, 24", mask), LENGTHS)


@pytest.mark.parametrize("mask", ["", "1, 1, s, m + s"])
def test_keys_of_the_past_are_seen_in_parts(mask: str) -> None:
    module = module_of("2, 2, s, 16", "2, 2, m + s, 16", mask, causal=not mask)
    check_ranged(module, [{"m": past, "s": queries} for past, queries in PASTS])


@pytest.mark.parametrize(("mask", "kind"), [("", f32), ("1, 1, 1, m + 1", f32), ("m + 1", boolean)])
def test_one_query_against_a_cache_that_grows(mask: str, kind: DType) -> None:
    check_ranged(module_of("1, 4, 1, 64", "1, 2, m + 1, 64", mask, kind, causal=True), STEPS)


def test_no_keys_at_all() -> None:
    for queries in (1, 20):
        check_ranged(module_of(f"1, 2, {queries}, 8", "1, 2, m, 8"), STEPS[:4])


def test_heads_that_lie_within_rows() -> None:
    module = Module()
    function = Function("main", module)
    builder = Builder(function)
    type = TensorType(f32, extents("b, s, 32"))
    heads = []
    for name in "qkv":
        cut = builder.emit(Reshape(extents("b, s, 2, 16")), function.input(name, type))
        heads.append(builder.emit(Transpose((0, 2, 1, 3)), cut))
    made = builder.emit(Transpose((0, 2, 1, 3)), builder.emit(Attention(0.25), *heads))
    function.output("out", builder.emit(Reshape(type.shape), made))
    check_ranged(module, LENGTHS)


def plan_of(q: str, k: str) -> tuple[str, dict[str, object]]:
    """The algorithm on a machine with 16 lanes, and its settings."""
    buffers = [
        Buffer(n, TensorType(f32, extents(s)), Region.INPUT)
        for n, s in zip("qkv", (q, k, k), strict=True)
    ]
    out = Buffer("out", TensorType(f32, extents(q)), Region.OUTPUT)
    problem = problem_of(OpInstr(Attention(0.25), (out,), tuple(buffers)))
    found = attention_algorithm(problem, Target.of("x86-64-v4"))
    return found.name, dict(found.settings)


def test_only_versions_that_the_bounds_allow() -> None:
    assert plan_of("1, 4, 1, 64", "1, 4, m + 1, 64") == ("by-query", {})
    assert plan_of("1, 4, k, 64", "1, 4, k, 64") == ("by-block", {"queries": 32, "keys": 100})
    several = ("by-query-or-block", {"queries": 32, "keys": 300})
    assert plan_of("b, 4, s, 64", "b, 4, 300, 64") == several


def test_few_queries_that_see_only_themselves_need_no_version_of_their_own() -> None:
    assert plan_of("b, 4, s, 64", "b, 4, s, 64") == ("by-block", {"queries": 32, "keys": 300})


def test_heads_of_a_ranged_width_are_refused() -> None:
    with pytest.raises(UndecidedExtentError) as refused:
        check_ranged(module_of("1, 2, 20, s", "1, 2, 20, s"), [])
    text = "how wide the heads of an attention are depends on s (1..300)"
    assert text in str(refused.value)
