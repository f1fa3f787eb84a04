"""Inputs become state: what a run returns for one, the next run finds in its place."""

from __future__ import annotations

import inspect

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Module, parse_module, print_module, verify_module
from afterglow.support.errors import UsageError
from afterglow.transforms.keep_state import keep_state

STEP = """
dim past : 0..15
func @main(%past.k: f32[2, past, 4], %x: f32[2, 1, 4]) {
  %present = concat(%past.k, %x) {axis = 1} : f32[2, past + 1, 4]
  %sum = reduce_sum(%present) {axes = (1,), keepdims = true} : f32[2, 1, 4]
  return %sum as "y", %present as "present.k"
}
"""


def kept(text: str, **state: str) -> str:
    module = parse_module(inspect.cleandoc(text))
    keep_state(module, {name.replace("_", "."): other for name, other in state.items()})
    verify_module(module)
    return print_module(module)


def test_what_is_appended_is_written_behind_what_is_filled() -> None:
    assert (
        kept(STEP, past_k="present.k")
        == inspect.cleandoc("""
        dim past : 0..15
        state @past.k : f32[2, 16, 4] filled 1 from past to past + 1
        func @main(%x: f32[2, 1, 4]) {
          %overwrite = overwrite(@past.k, %x) {starts = (0, past, 0)} : f32[2, 16, 4]
          %slice = slice(%overwrite) {starts = (0, 0, 0), extents = (2, past + 1, 4), \
steps = (1, 1, 1)} : f32[2, past + 1, 4]
          %sum = reduce_sum(%slice) {axes = (1,), keepdims = true} : f32[2, 1, 4]
          store %overwrite to @past.k
          return %sum as "y"
        }
    """).replace("\\\n", "")
        + "\n"
    )


def test_other_readers_of_the_past_read_what_is_filled() -> None:
    text = STEP.replace("%sum = reduce_sum(%present)", "%sum = reduce_sum(%past.k)")
    result = kept(text, past_k="present.k")
    assert "%sum = reduce_sum(%slice_1)" in result
    assert "extents = (2, past, 4), steps = (1, 1, 1)} : f32[2, past, 4]" in result


def test_what_does_not_just_append_is_copied() -> None:
    text = STEP.replace("%past.k, %x) {axis", "%x, %past.k) {axis")
    result = kept(text, past_k="present.k")
    assert "overwrite(@past.k, %present) {starts = (0, 0, 0)}" in result


def test_state_of_one_type_is_replaced() -> None:
    text = """
        func @main(%h: f32[4], %x: f32[4]) {
          %next = add(%h, %x) : f32[4]
          return %next as "y", %next as "h.next"
        }
    """
    assert (
        kept(text, h="h.next")
        == inspect.cleandoc("""
        state @h : f32[4]
        func @main(%x: f32[4]) {
          %next = add(@h, %x) : f32[4]
          store %next to @h
          return %next as "y"
        }
    """)
        + "\n"
    )


def test_a_star_stands_for_the_same_text() -> None:
    module = parse_module("""
        func @main(%past.0.k: f32[4], %past.1.k: f32[4]) {
          %a = relu(%past.0.k) : f32[4]
          %b = exp(%past.1.k) : f32[4]
          return %a as "present.0.key", %b as "present.1.key"
        }
    """)
    keep_state(module, {"past.*.k": "present.*.key"})
    assert not module.main.inputs
    assert not module.main.outputs
    stored = {update.state.name: update.value.name for update in module.main.updates}
    assert stored == {"past.0.k": "a", "past.1.k": "b"}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"past": "present.k"},
            "error: state cannot be kept: the model has no input 'past'\n"
            "  help: it has 'past.k', 'x'",
        ),
        (
            {"past.*": "now.*"},
            "error: state cannot be kept: the model has no output 'now.k'\n"
            "  help: it has 'y', 'present.k'",
        ),
        (
            {"x": "present.k"},
            "error: input 'x' cannot be kept as state that output 'present.k' gives: "
            "f32[2, 1, 4] becomes f32[2, past + 1, 4], and axis 1 must be a dimension with bounds\n"
            "  help: give bounds, such as dims={'past': (0, 1023)}",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(state: dict[str, str], message: str) -> None:
    module: Module = parse_module(inspect.cleandoc(STEP))
    with pytest.raises(UsageError) as caught:
        keep_state(module, state)
    assert str(caught.value) == message


def test_state_must_be_empty_at_first() -> None:
    with pytest.raises(UsageError, match="past must begin at 0: state is empty at first"):
        kept(STEP.replace("0..15", "1..15"), past_k="present.k")
