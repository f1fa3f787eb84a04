"""Extents that are expressions over dimensions."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.support.lexer import TokenStream
from afterglow.types.extent import (
    Dim,
    UndecidedExtentError,
    at_least,
    bind_extent,
    dims_of,
    is_ranged,
    larger_extent,
    largest,
    ranged,
    smaller_extent,
    smallest,
)
from afterglow.types.extent.solver import solve
from afterglow.types.extent.text import dim_lines, parse_dims, parse_extent

DIMS = (Dim("s", 1, 40), Dim("b", 1, 6), Dim("odd name", 0, 9), Dim("h", 32, 160, 32))
S, B, ODD, H = map(ranged, DIMS)

Pair = tuple[int, "list[tuple[str, int]] | None"]


def applied(kind: str, first: int, second: int) -> int:
    """An operation on extents, or on the numbers that they are in a run."""
    match kind:
        case "+":
            return first + second
        case "-":
            return first - second
        case "*":
            return first * second
        case "//":
            return first // (second * second + 1)
        case "%":
            return first % (second * second + 1)
        case "min":
            return smaller_extent(first, second)
    return larger_extent(first, second)


@st.composite
def expressions(draw: st.DrawFn) -> tuple[list[tuple[str, int]], int]:
    """A first leaf and a chain of operations with leaves: indices of dimensions, or numbers."""
    kinds = st.sampled_from(["+", "-", "*", "//", "%", "min", "max"])
    leaves = st.integers(-4, 12)
    return draw(st.lists(st.tuples(kinds, leaves), max_size=5)), draw(leaves)


def built(expression: tuple[list[tuple[str, int]], int], leaves: dict[int, int]) -> int:
    """The value of such a chain, with what the negative leaves stand for."""
    chain, first = expression
    total = leaves.get(first, first)
    for kind, leaf in chain:
        total = applied(kind, total, leaves.get(leaf, leaf))
    return total


RANGED_LEAVES = {-4: S, -3: B, -2: ODD, -1: H}


@st.composite
def runs(draw: st.DrawFn) -> dict[str, int]:
    """Extents of a run."""
    return {
        dim.name: dim.step * draw(st.integers(dim.low // dim.step, dim.high // dim.step))
        for dim in DIMS
    }


def leaves_of(run: dict[str, int]) -> dict[int, int]:
    return {place - 4: run[dim.name] for place, dim in enumerate(DIMS)}


@settings(max_examples=300, deadline=None)
@given(expressions(), runs())
def test_an_expression_has_the_value_of_its_operations_within_its_bounds(
    expression: tuple[list[tuple[str, int]], int], run: dict[str, int]
) -> None:
    extent = built(expression, RANGED_LEAVES)
    value = built(expression, leaves_of(run))
    assert bind_extent(extent, run) == value
    assert smallest(extent) <= value <= largest(extent)
    assert type(largest(extent)) is int


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_the_text_of_an_expression_reads_back(
    expression: tuple[list[tuple[str, int]], int],
) -> None:
    extent = built(expression, RANGED_LEAVES)
    tokens = TokenStream("\n".join([*dim_lines(DIMS), str(extent)]))
    parse_dims(tokens)
    read = parse_extent(tokens)
    assert tokens.next.kind == "end"
    assert read == extent
    assert str(read) == str(extent)


@settings(max_examples=100, deadline=None)
@given(expressions(), expressions(), runs())
def test_order_is_decided_for_all_runs_or_not_at_all(
    one: tuple[list[tuple[str, int]], int],
    other: tuple[list[tuple[str, int]], int],
    run: dict[str, int],
) -> None:
    first, second = built(one, RANGED_LEAVES), built(other, RANGED_LEAVES)
    values = built(one, leaves_of(run)), built(other, leaves_of(run))
    if at_least(first, second):
        assert values[0] >= values[1]
    try:
        assert (first < second) == (values[0] < values[1])
    except UndecidedExtentError:
        assert is_ranged(first - second)


@settings(max_examples=100, deadline=None)
@given(expressions())
def test_pickling_keeps_an_expression(expression: tuple[list[tuple[str, int]], int]) -> None:
    extent = built(expression, RANGED_LEAVES)
    copy = pickle.loads(pickle.dumps(extent))
    assert copy == extent
    assert (smallest(copy), largest(copy)) == (smallest(extent), largest(extent))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 7), st.integers(0, 9), runs())
def test_a_dimension_is_learned_from_a_multiple_of_it(
    factor: int, more: int, run: dict[str, int]
) -> None:
    extent = factor * S * B + more
    known = {"b": run["b"]}
    assert solve(extent, bind_extent(extent, run), known)
    assert known["s"] == run["s"]
    assert not solve(extent, bind_extent(extent, run), {})


def test_a_dimension_with_steps_is_learned_in_its_own_unit() -> None:
    known: dict[str, int] = {}
    assert solve(H // 16 + 1, 5, known)
    assert known == {"h": 64}


def test_equal_sums_are_equal_however_they_were_formed() -> None:
    assert (S + B) * 2 - S == B + S + B
    assert hash((S + B) * 2 - S) == hash(B + S + B)
    assert (64 * S * B) // (8 * B) == 8 * S
    assert (S * 12) % 6 == 0
    assert S - S == 0
    assert type(S - S) is int
    assert largest(S) != S


def test_a_quotient_of_a_quotient_is_one_quotient() -> None:
    assert (S + 1) // 2 // 2 == (S + 1) // 4
    assert (S // 2 + 3) // 2 == (S + 6) // 4
    assert ((((S + 1) // 2 + 1) // 2 + 1) // 2 + 1) // 2 == (S + 15) // 16


def test_a_quotient_by_an_expression_is_found_where_the_bounds_tell_it() -> None:
    assert divmod(S, 2 * S) == (0, S)
    assert divmod(3 * S * B + B - 1, S * B) == (3, B - 1)
    assert str(S // B) == "s // b"


def test_an_extreme_that_the_bounds_decide_is_no_expression() -> None:
    assert smaller_extent(S, 40) == S
    assert larger_extent(S, 1) == S
    assert larger_extent(S - 1, 0) == S - 1
    assert str(smaller_extent(S, 5)) == "min(5, s)"


def test_what_the_bounds_do_not_decide_is_an_error() -> None:
    with pytest.raises(UndecidedExtentError) as caught:
        bool(S < 7)
    assert caught.value.what == "whether s < 7 depends on s (1..40)"
    with pytest.raises(UndecidedExtentError) as caught:
        bool(ODD)
    assert caught.value.what == 'whether "odd name" is 0 depends on "odd name" (0..9)'
    with pytest.raises(UndecidedExtentError):
        S // ODD
    with pytest.raises(UndecidedExtentError):
        S & 1


def test_an_extent_is_compared_with_a_float_as_with_an_integer() -> None:
    assert S < 40.5
    assert not S <= 0.5
    assert S > 0.5
    assert S >= 1.0
    with pytest.raises(UndecidedExtentError) as caught:
        bool(S < 7.5)
    assert caught.value.what == "whether s < 7.5 depends on s (1..40)"


def test_dimensions_of_an_expression_are_found_in_all_its_parts() -> None:
    assert dims_of(smaller_extent(S, 5) + (B + 1) // 2, 4) == (DIMS[1], DIMS[0])


def test_bounds_of_sums_know_how_their_atoms_were_made() -> None:
    s = ranged(Dim("s", 1, 12))
    assert s - smaller_extent(4, s - 1) >= 1
    assert smallest(s - s // 2) == 1
    assert largest(s - s // 2 * 2) == 1
    assert larger_extent(0, s - 3) < s
    assert largest((s + 7) // 8 * 8 - s) == 7


def test_the_bounds_of_a_product_of_sums_are_those_of_its_factors() -> None:
    h, w = ranged(Dim("h", 3, 40)), ranged(Dim("w", 3, 50))
    size = (h - 2) * (w - 2)
    assert (smallest(size), largest(size)) == (1, 38 * 48)


def test_a_division_whose_remainder_the_bounds_tell_is_no_quotient() -> None:
    b, s = ranged(Dim("b", 1, 5)), ranged(Dim("s", 1, 40))
    assert divmod(5 * s, 5 * b + 5 * s) == (0, 5 * s)
    assert divmod(3 * s + 9, 3 * s + 6) == (1, 3)
    assert divmod(6 * s + 9, 3 * s + 6) == (1, 3 * s + 3)
    assert divmod(b * s - 1, s) == (b - 1, s - 1)


def test_sums_of_many_quotients_are_bounded_in_no_time() -> None:
    total = sum(n * (S // n) for n in range(2, 40))
    assert smallest(total) >= 0
    assert largest(total) <= 38 * largest(S)


def test_dimensions_without_an_extent_stay() -> None:
    extent = (S + B) // 2 * H + S % B + smaller_extent(S, H)
    partly = bind_extent(extent, {"s": 7, "h": 64})
    assert str(partly) == "64*((b + 1) // 2) + 7 % b + 199"
    assert bind_extent(partly, {"b": 3}) == extent.bind({"s": 7, "h": 64, "b": 3})
