"""Extents from text: `12*b*s`, `(s + 1) // 2`, `min(s, 5)`, and the dimensions they are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import add, floordiv, mod, mul, sub

from afterglow.support.errors import TypeRuleError
from afterglow.support.lexer import TokenStream
from afterglow.types.extent import Dim, is_ranged, larger_extent, ranged, smaller_extent
from afterglow.types.interface import FillLevel

_LOOSE: dict[str, Callable[[int, int], int]] = {"+": add, "-": sub}
_TIGHT: dict[str, Callable[[int, int], int]] = {"*": mul, "//": floordiv, "%": mod}
_CALLS = {"min": smaller_extent, "max": larger_extent}


def dim_lines(dims: Iterable[Dim]) -> list[str]:
    """Declarations of dimensions, by name: `dim s : 1..512`, `dim h : 32..640 by 32`."""
    ordered = sorted({*dims}, key=lambda dim: (dim.name, dim.low, dim.high, dim.step))
    return [f"dim {dim.spelled} : {dim.range_text}" for dim in ordered]


def parse_dims(tokens: TokenStream) -> None:
    """Read declarations of dimensions, if there are some: their names are extents from here on."""
    while tokens.next.text == "dim" and tokens.next.kind == "word":
        tokens.expect("dim")
        _parse_dim(tokens)


def _parse_dim(tokens: TokenStream) -> None:
    if tokens.next.kind == "string":
        name = json.loads(tokens.take("string"))
    else:
        name = tokens.take("word", "the name of a dimension")
    if name in tokens.extents:
        raise tokens.error(f"dimension {name!r} is declared twice")
    tokens.expect(":")
    low = tokens.integer()
    tokens.expect("..")
    high = tokens.integer()
    step = tokens.integer() if tokens.accept("by") else 1
    if not 0 <= low <= high or step < 1 or low % step or high % step:
        raise tokens.error(f"dimension {name!r} cannot be {Dim(name, low, high, step).range_text}")
    tokens.extents[name] = ranged(Dim(name, low, high, step))


def spell_shape(shape: Sequence[int]) -> list[int | str]:
    """A shape as what JSON can hold: numbers, and the texts of expressions."""
    return [str(extent) if is_ranged(extent) else extent for extent in shape]


def read_shape(spelled: Sequence[int | str], dims: Iterable[Dim]) -> tuple[int, ...]:
    """The shape that was spelled so, over these dimensions."""
    extents = {dim.name: ranged(dim) for dim in dims}
    return tuple(read_extent(each, extents) if isinstance(each, str) else each for each in spelled)


def parse_level(tokens: TokenStream) -> FillLevel | None:
    """Read how far a state is filled, if its declaration says that."""
    if not tokens.accept("filled"):
        return None
    axis = tokens.integer()
    tokens.expect("from")
    before = parse_extent(tokens)
    tokens.expect("to")
    return FillLevel(axis, before, parse_extent(tokens))


def read_extent(text: str, extents: Mapping[str, int]) -> int:
    """The extent that an expression over others is; a `ParseError` if it is none."""
    tokens = TokenStream(text)
    tokens.extents = dict(extents)
    extent = parse_extent(tokens)
    if tokens.next.kind != "end":
        raise tokens.error(f"expected the end of an extent, found {tokens.next.text!r}")
    return extent


def parse_extent(tokens: TokenStream) -> int:
    """Read a number, or an expression over dimensions that the text declares."""
    return continue_extent(tokens, _factor(tokens))


def continues(tokens: TokenStream) -> bool:
    """Whether what was just read goes on as an expression."""
    token = tokens.next
    return token.text in _LOOSE or token.text in _TIGHT or _is_negative(tokens)


def continue_extent(tokens: TokenStream, first: int) -> int:
    """Read the rest of an expression, of which the first factor was read already."""
    total = _product(tokens, first)
    while True:
        if _is_negative(tokens):  # `s -1`: the sign belongs to the number
            total = total + _product(tokens, _factor(tokens))
        elif tokens.next.text in _LOOSE:
            operator = _LOOSE[tokens.take("mark")]
            total = operator(total, _product(tokens, _factor(tokens)))
        else:
            return total


def declared_extent(tokens: TokenStream, name: str) -> int:
    """The extent of a dimension, which must be declared."""
    if name not in tokens.extents:
        raise tokens.error(f"dimension {name!r} is not declared")
    return tokens.extents[name]


def _is_negative(tokens: TokenStream) -> bool:
    return tokens.next.kind == "number" and tokens.next.text.startswith("-")


def _product(tokens: TokenStream, first: int) -> int:
    while tokens.next.text in _TIGHT and tokens.next.kind == "mark":
        operator = _TIGHT[tokens.take("mark")]
        second = _factor(tokens)
        try:
            first = operator(first, second)
        except TypeRuleError as error:
            raise tokens.error(f"this is no extent: {error.what}") from None
        except ZeroDivisionError:
            raise tokens.error("this is no extent: it divides by 0") from None
    return first


def _factor(tokens: TokenStream) -> int:
    if tokens.accept("-"):
        return -_factor(tokens)
    if tokens.accept("("):
        inner = parse_extent(tokens)
        tokens.expect(")")
        return inner
    if tokens.next.kind == "string":
        return declared_extent(tokens, json.loads(tokens.take("string")))
    if tokens.next.kind != "word":
        return tokens.integer()
    word = tokens.take("word")
    if starts_call(tokens, word):
        return continue_call(tokens, word)
    return declared_extent(tokens, word)


def starts_call(tokens: TokenStream, word: str) -> bool:
    """Whether a word that was just read is the `min` or `max` of what follows."""
    return word in _CALLS and tokens.next.text == "("


def continue_call(tokens: TokenStream, word: str) -> int:
    """Read what `min` or `max` is applied to."""
    tokens.expect("(")
    first = parse_extent(tokens)
    tokens.expect(",")
    second = parse_extent(tokens)
    tokens.expect(")")
    return _CALLS[word](first, second)
