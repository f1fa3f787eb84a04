"""Channels that are scaled together."""

from __future__ import annotations

import inspect

import numpy as np

from afterglow.graph import Value, parse_module
from afterglow.quantization.channels import ChannelGroup, channel_groups

PRODUCT = "{transpose_lhs = false, transpose_rhs = false}"


def groups(text: str, **shapes: tuple[int, ...]) -> list[ChannelGroup]:
    """The groups of a program, with constants of ones."""
    constants = [
        f"const @{name} : f32{[*shape]} = {np.ones(shape).ravel().tolist()}"
        for name, shape in shapes.items()
    ]
    return channel_groups(parse_module("\n".join([*constants, inspect.cleandoc(text)])).main)


def names(found: list[ChannelGroup]) -> list[list[str]]:
    """The values of groups."""
    return [[value.name for value in group.values] for group in found]


def sets(group: ChannelGroup) -> dict[str, list[int]]:
    """The set of each channel of each value, by the names of these."""
    values: dict[Value, np.ndarray] = group.values
    return {value.name: places.tolist() for value, places in values.items()}


def test_each_channel_of_a_chain_is_a_set() -> None:
    (group,) = groups(
        f"""
        func @main(%x: f32[7, 2]) {{
          %a = matmul(%x, @v) {PRODUCT} : f32[7, 3]
          %b = add(%a, @b) : f32[7, 3]
          %r = relu(%b) : f32[7, 3]
          %y = matmul(%r, @w) {PRODUCT} : f32[7, 2]
          return %y
        }}
        """,
        v=(2, 3),
        b=(3,),
        w=(3, 2),
    )
    assert sets(group) == {name: [0, 1, 2] for name in "abr"}
    assert group.size == 3
    assert [(p.node.name, p.place) for p in group.parameters] == [("a", 1), ("b", 1)]
    assert [(p.node.name, p.place) for p in group.readers] == [("y", 1)]


def test_what_leaves_a_function_or_comes_from_outside_is_in_no_group() -> None:
    text = f"""
        func @main(%x: f32[7, 3]) {{
          %a = matmul(%x, @v) {PRODUCT} : f32[7, 3]
          %s = add(%a, SECOND) : f32[7, 3]
          %y = matmul(%s, @w) {PRODUCT} : f32[7, 3]
          return %y
        }}
    """
    shapes = {"v": (3, 3), "w": (3, 3), "b": (3,)}
    assert not groups(text.replace("SECOND", "%x"), **shapes)
    assert not groups(text.replace("SECOND", "@b").replace("return %y", "return %y, %s"), **shapes)
    assert names(groups(text.replace("SECOND", "@b"), **shapes)) == [["a", "s"]]


def test_moves_are_followed_element_by_element() -> None:
    text = """
        func @main(%x: f32[1, 2, 2, 3]) {
          %a = conv(%x, @v) {strides = (1, 1), pads = (0, 0, 0, 0), dilations = (1, 1), groups = 1}
            : f32[1, 2, 2, 2]
          %f = MOVE
          %y = matmul(%f, @w) {transpose_lhs = false, transpose_rhs = false} : f32[ROWS, 1]
          return %y
        }
    """.replace("groups = 1}\n            :", "groups = 1} :")
    flat = "reshape(%a) {shape = (1, 8)} : f32[1, 8]"
    mixed = "reshape(%a) {shape = (4, 2)} : f32[4, 2]"
    crossed = "transpose(%a) {perm = (0, 3, 1, 2)} : f32[1, 2, 2, 2]"
    shapes = {"v": (2, 1, 1, 3)}
    (group,) = groups(text.replace("MOVE", flat).replace("ROWS", "1"), **shapes, w=(8, 1))
    assert sets(group)["f"] == [0, 1] * 4
    (group,) = groups(text.replace("MOVE", mixed).replace("ROWS", "4"), **shapes, w=(2, 1))
    assert sets(group)["f"] == [0, 1]
    one = text.replace("MOVE", crossed).replace("ROWS", "1, 2, 2")
    (group,) = groups(one, **shapes, w=(2, 1))
    assert group.size == 1


def test_a_gate_scales_what_it_multiplies_but_is_not_scaled_itself() -> None:
    (group,) = groups(
        f"""
        func @main(%x: f32[7, 3]) {{
          %a = matmul(%x, @v) {PRODUCT} : f32[7, 3]
          %m = reduce_mean(%a) {{axes = (0,), keepdims = true}} : f32[1, 3]
          %g = matmul(%m, @u) {PRODUCT} : f32[1, 3]
          %p = mul(%a, %g) : f32[7, 3]
          %y = matmul(%p, @w) {PRODUCT} : f32[7, 2]
          return %y
        }}
        """,
        v=(3, 3),
        u=(3, 3),
        w=(3, 2),
    )
    assert sorted(sets(group)) == ["a", "m", "p"]
    assert [reader.node.name for reader in group.readers] == ["g", "y"]
