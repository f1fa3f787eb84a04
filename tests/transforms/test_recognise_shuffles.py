from __future__ import annotations

import pytest

from afterglow.transforms.recognise_shuffles import RECOGNISE_SHUFFLES
from tests.transforms.rewriting import check_declines, check_rewrites


def program(x: str, *shapes: str, split: str, perm: str) -> str:
    """reshape, transpose and reshape of an %x; `shapes` are those of the three results."""
    parts, turned, joined = (f"f32[{shape}]" for shape in shapes)
    return f"""
        func @main(%x: f32[{x}]) {{
          %a = reshape(%x) {{shape = ({split})}} : {parts}
          %b = transpose(%a) {{perm = ({perm})}} : {turned}
          %y = reshape(%b) {{shape = ({shapes[2]})}} : {joined}
          return %y
        }}
    """


def one_op(x: str, y: str, text: str) -> str:
    return f"""
        func @main(%x: f32[{x}]) {{
          %y = {text} : f32[{y}]
          return %y
        }}
    """


# x, split, perm, shape after it, result, op
SPELLED = [
    (
        "2, 3, 4, 8",
        "2, 3, 4, 2, 2, 2",
        "0, 1, 3, 2, 4, 5",
        "2, 3, 2, 4, 2, 2",
        "2, 6, 8, 2",
        "depth_to_space(%x) {block = 2, mode = dcr}",
    ),
    (
        "2, 3, 4, 12",
        "2, 3, 4, 3, 2, 2",
        "0, 1, 4, 2, 5, 3",
        "2, 3, 2, 4, 2, 3",
        "2, 6, 8, 3",
        "depth_to_space(%x) {block = 2, mode = crd}",
    ),
    (  # samples and rows joined, the last two factors too
        "2, 3, 4, 12",
        "6, 4, 2, 6",
        "0, 2, 1, 3",
        "6, 2, 4, 6",
        "2, 6, 8, 3",
        "depth_to_space(%x) {block = 2, mode = dcr}",
    ),
    (
        "2, 6, 4, 3",
        "2, 3, 2, 2, 2, 3",
        "0, 1, 3, 2, 4, 5",
        "2, 3, 2, 2, 2, 3",
        "2, 3, 2, 12",
        "space_to_depth(%x) {block = 2, mode = dcr}",
    ),
    (
        "2, 6, 4, 3",
        "2, 3, 2, 2, 2, 3",
        "0, 1, 3, 5, 2, 4",
        "2, 3, 2, 3, 2, 2",
        "2, 3, 2, 12",
        "space_to_depth(%x) {block = 2, mode = crd}",
    ),
    (
        "2, 5, 5, 6",
        "2, 5, 5, 3, 2",
        "0, 1, 2, 4, 3",
        "2, 5, 5, 2, 3",
        "2, 5, 5, 6",
        "channel_shuffle(%x) {groups = 3, axis = 3}",
    ),
    (
        "2, 6, 5, 5",
        "2, 2, 3, 5, 5",
        "0, 2, 1, 3, 4",
        "2, 3, 2, 5, 5",
        "2, 6, 5, 5",
        "channel_shuffle(%x) {groups = 2, axis = 1}",
    ),
    (
        "1, 6, 5, 5",
        "2, 3, 25",
        "1, 0, 2",
        "3, 2, 25",
        "1, 6, 5, 5",
        "channel_shuffle(%x) {groups = 2, axis = 1}",
    ),
]


@pytest.mark.parametrize(("x", "split", "perm", "turned", "y", "op"), SPELLED)
def test_spelled_shuffle_becomes_one_op(
    x: str, split: str, perm: str, turned: str, y: str, op: str
) -> None:
    check_rewrites(
        RECOGNISE_SHUFFLES,
        before=program(x, split, turned, y, split=split, perm=perm),
        after=one_op(x, y, op),
    )


OTHERS = [
    # Another order, blocks that are not square, an exchange of whole axes.
    ("2, 3, 4, 8", "2, 3, 4, 2, 2, 2", "0, 1, 4, 2, 3, 5", "2, 3, 2, 4, 2, 2", "2, 6, 8, 2"),
    ("2, 3, 4, 8", "2, 3, 4, 2, 4", "0, 1, 3, 2, 4", "2, 3, 2, 4, 4", "2, 6, 4, 4"),
    ("2, 4, 4, 3", "2, 4, 4, 3", "0, 2, 1, 3", "2, 4, 4, 3", "2, 4, 4, 3"),
    ("2, 12, 5", "2, 2, 3, 2, 5", "0, 3, 2, 1, 4", "2, 2, 3, 2, 5", "2, 12, 5"),
]


@pytest.mark.parametrize(("x", "split", "perm", "turned", "y"), OTHERS)
def test_other_movements_stay(x: str, split: str, perm: str, turned: str, y: str) -> None:
    check_declines(RECOGNISE_SHUFFLES, program(x, split, turned, y, split=split, perm=perm))


def test_parts_that_serve_others_stay() -> None:
    check_declines(
        RECOGNISE_SHUFFLES,
        """
            func @main(%x: f32[2, 5, 6]) {
              %a = reshape(%x) {shape = (2, 5, 3, 2)} : f32[2, 5, 3, 2]
              %b = transpose(%a) {perm = (0, 1, 3, 2)} : f32[2, 5, 2, 3]
              %y = reshape(%b) {shape = (2, 5, 6)} : f32[2, 5, 6]
              return %y, %b
            }
        """,
    )


# channels, rows, columns; split; perm; turned; result with channels first; result; op
FIRST = [
    (
        "8, 3, 4",
        "2, 2, 2, 2, 3, 4",
        "0, 3, 4, 1, 5, 2",
        "2, 2, 3, 2, 4, 2",
        "2, 2, 6, 8",
        "2, 6, 8, 2",
        "depth_to_space(%x) {block = 2, mode = dcr}",
    ),
    (
        "8, 3, 4",
        "2, 2, 2, 2, 3, 4",
        "0, 1, 4, 2, 5, 3",
        "2, 2, 3, 2, 4, 2",
        "2, 2, 6, 8",
        "2, 6, 8, 2",
        "depth_to_space(%x) {block = 2, mode = crd}",
    ),
    (
        "3, 6, 4",
        "2, 3, 3, 2, 2, 2",
        "0, 3, 5, 1, 2, 4",
        "2, 2, 2, 3, 3, 2",
        "2, 12, 3, 2",
        "2, 3, 2, 12",
        "space_to_depth(%x) {block = 2, mode = dcr}",
    ),
    (
        "3, 6, 4",
        "2, 3, 3, 2, 2, 2",
        "0, 1, 3, 5, 2, 4",
        "2, 3, 2, 2, 3, 2",
        "2, 12, 3, 2",
        "2, 3, 2, 12",
        "space_to_depth(%x) {block = 2, mode = crd}",
    ),
]


@pytest.mark.parametrize(("x", "split", "perm", "turned", "first", "last", "op"), FIRST)
def test_channels_that_came_first_come_last(
    x: str, split: str, perm: str, turned: str, first: str, last: str, op: str
) -> None:
    channels, places = x.split(", ", 1)
    check_rewrites(
        RECOGNISE_SHUFFLES,
        before=f"""
            func @main(%x: f32[2, {places}, {channels}]) {{
              %t = transpose(%x) {{perm = (0, 3, 1, 2)}} : f32[2, {x}]
              %a = reshape(%t) {{shape = ({split})}} : f32[{split}]
              %b = transpose(%a) {{perm = ({perm})}} : f32[{turned}]
              %y = reshape(%b) {{shape = ({first})}} : f32[{first}]
              return %y
            }}
        """,
        after=f"""
            func @main(%x: f32[2, {places}, {channels}]) {{
              %y_1 = {op} : f32[{last}]
              %y = transpose(%y_1) {{perm = (0, 3, 1, 2)}} : f32[{first}]
              return %y
            }}
        """,
    )
