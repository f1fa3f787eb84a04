"""Stop strings in texts that come in pieces."""

from __future__ import annotations

import pytest

from afterglow.text.stopping import StopStrings


@pytest.mark.parametrize("size", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("text", "strings", "wanted"),
    [
        ("one two three", ["two"], "one "),
        ("one two three", ["three", "o t"], "one tw"),
        ("aaab", ["aab"], "a"),
        ("never", ["ever more"], "never"),
        ("ababac", ["abac"], "ab"),
        ("x", [], "x"),
    ],
)
def test_texts_end_before_a_stop_string(
    text: str, strings: list[str], wanted: str, size: int
) -> None:
    stops = StopStrings(strings)
    passed = "".join(stops.push(text[i : i + size]) for i in range(0, len(text), size))
    assert stops.found == (wanted != text)
    assert passed + stops.finish() == wanted


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    stops = StopStrings(["</s>", "END"])
    assert [stops.push(piece) for piece in ("hi <", "b> E", "nd", "</s")] == [
        "hi ",
        "<b> ",
        "End",
        "",
    ]
    assert stops.finish() == "</s"
