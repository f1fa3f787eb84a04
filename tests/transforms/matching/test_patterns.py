from __future__ import annotations

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Function, Value, parse_function
from afterglow.ops.elementwise import Add, Mul
from afterglow.transforms.matching.patterns import (
    MOST_NODES,
    ingredients,
    is_near,
    maker,
    scalar_of,
    serves_only,
    uncast,
)
from afterglow.types import dtype as d

CAST = "saturate = true, round_mode = up}"


def parsed(body: str) -> tuple[Function, dict[str, Value]]:
    """A function with constants and inputs to choose from, and its values by name."""
    function = parse_function(f"""
        const @one : f32[1, 1] = [1]
        const @count : i64[] = [3]
        const @half : f32[] = [0.5]
        const @many : f32[2] = [1, 1]
        func @main(%x: f32[2], %h: f16[2]) {{
        {body}
        }}
    """)
    found: dict[str, Value] = {value.name: value for value in function.inputs}
    found.update((node.name, node.result) for node in function.nodes)
    found.update(function.module.constants)
    return function, found


def test_scalars_have_one_element_of_any_rank() -> None:
    _, found = parsed(f"""
        %c = cast(@count) {{dtype = f32, {CAST} : f32[]
        return %c, %x
    """)
    assert scalar_of(found["one"]) == 1
    assert scalar_of(found["c"]) == 3
    assert scalar_of(found["many"]) is None
    assert scalar_of(found["x"]) is None


def test_conversions_between_floats_are_looked_through() -> None:
    _, found = parsed(f"""
        %a = cast(%h) {{dtype = f32, {CAST} : f32[2]
        %b = mul(%a, %x) : f32[2]
        %c = cast(%b) {{dtype = f16, {CAST} : f16[2]
        %i = cast(%x) {{dtype = i32, {CAST} : i32[2]
        %f = cast(%i) {{dtype = f32, {CAST} : f32[2]
        return %c, %f
    """)
    assert uncast(found["a"]) is found["h"]
    assert maker(found["c"], Mul) is found["b"].producer
    assert maker(found["c"], Add) is None
    assert uncast(found["f"]) is found["f"]


def test_ingredients_come_nearest_first_and_without_scalars() -> None:
    _, found = parsed("""
        %e = exp(%x) : f32[2]
        %a = mul(%e, @many) : f32[2]
        %b = add(%a, %x) : f32[2]
        %c = sub(%b, @half) : f32[2]
        return %c
    """)
    assert [v.name for v in ingredients(found["c"])] == ["c", "b", "a", "x", "e", "many"]
    assert [v.name for v in ingredients(found["c"], 1)] == ["c", "b"]


def test_ingredients_are_bounded() -> None:
    lines = ["%v0 = add(%x, %x) : f32[2]"]
    lines += [f"%v{i} = add(%v{i - 1}, %v{max(0, i - 7)}) : f32[2]" for i in range(1, 200)]
    _, found = parsed("\n".join([*lines, "return %v199"]))
    assert len([*ingredients(found["v199"])]) <= MOST_NODES


def test_what_others_need_serves_not_only_one() -> None:
    function, found = parsed("""
        %a = exp(%x) : f32[2]
        %b = neg(%a) : f32[2]
        %c = mul(%a, %b) : f32[2]
        %d = abs(%b) : f32[2]
        %e = add(%c, %d) : f32[2]
        return %e
    """)
    nodes = {node.name: node for node in function.nodes}
    assert serves_only(nodes["e"], [found["x"]])
    assert serves_only(nodes["c"], [found["a"], found["b"]])
    assert not serves_only(nodes["c"], [found["a"]])
    assert not serves_only(nodes["c"], [found["x"]])


def test_what_is_returned_serves_not_only_one() -> None:
    function, found = parsed("""
        %a = exp(%x) : f32[2]
        %b = neg(%a) : f32[2]
        return %b, %a
    """)
    nodes = {node.name: node for node in function.nodes}
    assert not serves_only(nodes["b"], [found["x"]])


def test_constants_may_be_off_by_what_their_type_rounds_away() -> None:
    assert is_near(0.7070, 0.70710678, d.f16)
    assert not is_near(0.7070, 0.70710678, d.f32)
    assert is_near(-0.5, -0.5, d.f32)
