"""Addresses: valid, never worse than no sharing, and as small as they can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.instr import parse_program, verify_program
from afterglow.memory import MemorySpace, plan_memory
from afterglow.memory.exact import improve
from afterglow.memory.lifetimes import Lifetime, aligned, lower_bound, peak
from afterglow.memory.placement import arena_of, place
from afterglow.support.errors import UnsupportedError

QUICK = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def lifetimes(draw: st.DrawFn, most: int = 40, sizes: int = 1000) -> list[Lifetime]:
    """Random lifetimes; long ones among short ones, as programs have them."""
    found = []
    for _ in range(draw(st.integers(0, most))):
        start = draw(st.integers(0, 2 * most))
        length = draw(st.integers(0, 4) | st.integers(0, most))
        found.append(Lifetime(start, start + length, 64 * draw(st.integers(1, sizes))))
    return found


def meet(one: Lifetime, other: Lifetime) -> bool:
    """Whether both are needed at some time."""
    return one.start <= other.end and other.start <= one.end


def check_valid(lives: Sequence[Lifetime], addresses: Sequence[int]) -> None:
    placed = list(zip(lives, addresses, strict=True))
    for index, (life, address) in enumerate(placed):
        assert address >= 0
        for other, taken in placed[:index]:
            apart = address + life.size <= taken or taken + other.size <= address
            assert apart or not meet(life, other)


def smallest_arena(lives: Sequence[Lifetime]) -> int:
    """By trying all orders: what is best, pressed down, comes from one of them."""
    arenas = []
    for order in permutations(lives):
        tops: list[tuple[Lifetime, int]] = []
        for life in order:
            below = max((top for other, top in tops if meet(life, other)), default=0)
            tops.append((life, below + life.size))
        arenas.append(max((top for _, top in tops), default=0))
    return min(arenas)


@QUICK
@given(lifetimes())
def test_placements_are_valid_and_between_the_bound_and_the_sum(lives: list[Lifetime]) -> None:
    addresses = place(lives, lower_bound(lives))
    check_valid(lives, addresses)
    assert lower_bound(lives) <= arena_of(lives, addresses) <= sum(life.size for life in lives)


@QUICK
@given(lifetimes(most=12), st.integers(0, 3000))
def test_the_search_never_makes_it_worse(lives: list[Lifetime], steps: int) -> None:
    ends = [sum(life.size for life in lives[:index]) for index in range(len(lives))]
    if not lives:
        return
    improved = improve(lives, ends, steps)
    check_valid(lives, improved)
    assert arena_of(lives, improved) <= arena_of(lives, ends)
    assert improve(lives, ends, steps) == improved


@settings(QUICK, max_examples=150)
@given(lifetimes(most=6, sizes=5))
def test_the_search_finds_what_trying_everything_finds(lives: list[Lifetime]) -> None:
    if not lives:
        return
    ends = [sum(life.size for life in lives[:index]) for index in range(len(lives))]
    assert arena_of(lives, improve(lives, ends, 1_000_000)) == smallest_arena(lives)


def test_the_search_knows_that_the_bound_can_be_out_of_reach() -> None:
    lives = [
        Lifetime(start, end, 64 * size)
        for start, end, size in [(5, 6, 3), (8, 8, 2), (7, 7, 3), (6, 8, 2), (3, 5, 2), (6, 6, 1)]
    ]
    found = improve(lives, place(lives, lower_bound(lives)), 10_000)
    assert arena_of(lives, found) == smallest_arena(lives)


def test_random_lifetimes_come_within_two_percent_of_the_bound() -> None:
    for seed in range(100):
        random = Random(seed)
        lives = []
        for start in range(80):
            length = random.choice([1, 1, 1, 2, 2, 3, 8])
            lives.append(Lifetime(start, start + length, 64 * random.randint(1, 500)))
        bound = lower_bound(lives)
        assert arena_of(lives, place(lives, bound)) <= 1.02 * bound


def test_ten_thousand_lifetimes_are_placed() -> None:
    random = Random(0)
    lives = [
        Lifetime(start, start + random.choice([1, 2, 3, 4, 50]), 64 * random.randint(1, 500))
        for start in range(10_000)
    ]
    bound = lower_bound(lives)
    addresses = place(lives, bound)
    assert arena_of(lives, addresses) <= 1.02 * bound


def test_the_peak_is_where_most_is_live() -> None:
    lives = [Lifetime(0, 1, 64), Lifetime(1, 3, 128), Lifetime(3, 4, 256), Lifetime(5, 9, 192)]
    assert peak(lives) == (384, 3)
    assert peak([]) == (0, 0)


def test_sizes_are_rounded_up() -> None:
    assert [aligned(count, 64) for count in (0, 1, 64, 65)] == [0, 64, 64, 128]


PROGRAM = """
program @main {
  input %x : f32[5]
  output %y : f32[5]
  %e = alloc f32[0]
  %a = alloc f32[5]
  exp out %a, in %x
  %s = alloc f32[40]
  layer_norm out %y, in %a, none, none, scratch %s {axis = -1, epsilon = 1e-05}
  dealloc %s
  dealloc %a
  dealloc %e
}
"""


def test_a_plan_says_what_it_needs() -> None:
    program = parse_program(PROGRAM)
    plan = plan_memory(program)
    verify_program(program)
    assert (plan.arena_bytes, plan.lower_bound_bytes, plan.total_bytes) == (256, 256, 256)
    assert plan.scratch_bytes == 192
    assert plan.ratio == 1.0
    assert program.arena_bytes == 256


def test_the_alignment_is_the_memorys() -> None:
    plan = plan_memory(parse_program(PROGRAM), MemorySpace(alignment=4))
    assert (plan.arena_bytes, plan.scratch_bytes) == (180, 160)


def test_a_memory_may_be_too_small() -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan_memory(parse_program(PROGRAM), MemorySpace("sram", capacity=200))
    assert caught.value.what == "the program needs 256 bytes of memory 'sram', which has 200"


def test_a_program_without_an_arena_needs_none() -> None:
    program = parse_program("""
        program @main {
          input %x : f32[2]
          output %y : f32[2]
          exp out %y, in %x
        }
    """)
    assert plan_memory(program).arena_bytes == 0


def test_buffers_begin_where_a_kernel_wants_them() -> None:
    program = parse_program("""
        program @main {
          input %x : f32[3]
          output %y : f32[3]
          %a = alloc f32[3]
          exp out %a, in %x plan direct needs {cost = 1.0, alignment = 256}
          %b = alloc f32[3]
          exp out %b, in %a
          dealloc %a
          exp out %y, in %b
          dealloc %b
        }
    """)
    plan_memory(program)
    assert sorted(buffer.address or 0 for buffer in program.arena()) == [0, 256]
