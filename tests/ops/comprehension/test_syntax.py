"""Wrong texts: what is wrong, and the place."""

from __future__ import annotations

import inspect

import pytest

import afterglow as ag


@pytest.mark.parametrize(
    ("text", "what", "at"),
    [
        ("", "there is no statement", 0),
        ("o[i]", "expected '=', found 'the end'", 4),
        ("o[i] =", "expected a value, found 'the end'", 6),
        ("o[i = x[i]", "expected ',', found '='", 4),
        ("o[i] = x[i", "expected ',', found 'the end'", 10),
        ("o[i] = (x[i]", "expected ')', found 'the end'", 12),
        ("o[i] = x[i])", "expected the end of the statement, found ')'", 11),
        ("o[i] = x[i] y[i]", "expected the end of the statement, found 'y'", 12),
        ("o[i] = x[i] ? 2", "unexpected character '?'", 12),
        ("o[i, i] = x[i]", "index i is on the left twice", 5),
        ("o[i] = 1", "index i is on the left, but nothing on the right depends on it", 0),
        ("o[i] = o[i]", "o is what the statement defines", 7),
        ("t[i] = x[i]; t[i] = y[i]", "t is defined twice", 13),
        ("o[i] = sum(i) x[i]", "index i is on the left: a reduction cannot run over it", 11),
        (
            "o[] = sum(k) sum(k) x[k]",
            "index k is bound already: a reduction cannot run over it",
            17,
        ),
        ("o[i] = sum() x[i]", "sum needs an index to run over", 7),
        ("o[i] = sum(k) x[i]", "nothing under sum depends on index k", 7),
        ("o[i] = foo(x[i])", "there is no function foo", 7),
        ("o[i] = exp(x[i], 2)", "exp takes 1 argument, got 2", 7),
        ("o[i] = where(x[i])", "where takes 3 arguments, got 1", 7),
        ("o[i] = x[i] where j in 0:3", "j is not an index on the left", 18),
        ("o[i] = x[i] where i in 3:0", "range 3:0 of i is empty", 18),
        (
            "o[i] = x[i] where i in 1:3",
            "index i is on the left: its range must begin at 0",
            18,
        ),
        ("o[i] = x[i] where i in 0:9999999999", "range 0:9999999999 of i is too large", 18),
        ("o[i] = x[i] where i in 0:3, i in 0:4", "the range of i is given twice", 28),
        ("o[i] = x[i] where i in 0:i", "the end of a range must be a number", 25),
        ("o[i] = " + "(" * 40 + "x[i]", "expressions are nested more than 30 deep", 38),
    ],
)
def test_what_is_wrong_is_shown_at_its_place(text: str, what: str, at: int) -> None:
    with pytest.raises(ag.ParseError) as caught:
        ag.comprehension(text)
    assert caught.value.what == what
    assert caught.value.excerpt == (text, " " * at + "^")


def test_of_a_long_line_the_part_around_the_fault_is_shown() -> None:
    with pytest.raises(ag.ParseError) as caught:
        ag.comprehension("o[i] = x[i]" + "+x[i]" * 300)
    assert caught.value.what == "a statement has more than 200 operators"
    assert caught.value.excerpt == ("+x[i]" * 32, " " * 80 + "^")


def test_index_notation_is_a_text() -> None:
    with pytest.raises(ag.UsageError, match="index notation is a text, got 3"):
        ag.comprehension(3)  # type: ignore[arg-type]  # what is wrong with it


@pytest.mark.parametrize("index", ["i*i", "y[i]", "1.5*i", "i/2"])
def test_an_index_is_a_sum_of_multiples(index: str) -> None:
    with pytest.raises(ag.ParseError, match="an index must be a sum of whole multiples of indices"):
        ag.comprehension(f"o[i] = x[{index}]")


def test_an_unknown_index_is_explained() -> None:
    with pytest.raises(ag.ParseError) as caught:
        ag.comprehension("t[i] = x[i]\no[i] = max(k) x[k] + t[k]")
    assert str(caught.value) == inspect.cleandoc("""
        error: unknown index k: it is not on the left, and no reduction binds it
            o[i] = max(k) x[k] + t[k]
                                   ^
          help: sum(k) binds it in the product that follows, or in a sum in parentheses
    """)


def test_lines_and_comments_separate_statements() -> None:
    text = """
        t[i] = x[i] * 2   # twice
        o[i] = max(t[i],
                   y[i])  # brackets go on
    """
    assert ag.comprehension(text).operands == ("x", "y")
