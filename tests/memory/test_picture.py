"""The timeline of an arena, and its picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.instr import Program, parse_program
from afterglow.memory.picture import bytes_text, memory_svg
from afterglow.memory.timeline import Timeline, kind_of, origin_of, work_of

SVG = "{http://www.w3.org/2000/svg}"

TEXT = """
program @main arena 3072 {
  input %x : f32[256]
  output %y : f32[256]
  %"a <b>" = alloc f32[256] at 0
  exp out %"a <b>", in %x
  %b = alloc f32[256] at 1024
  %v = view %b : f32[1, 256]
  softmax out %b, in %"a <b>" {axis = 0}
  stack {
    %t = local f32[1, 256]
    softmax out %t, in %v {axis = -1}
    exp out %v, in %t
  }
  %c = alloc f32[256] at 2048
  copy out %c, in %b
  dealloc %"a <b>"
  dealloc %b
  copy out %y, in %c
  dealloc %c
}
"""


@pytest.fixture
def program() -> Program:
    return parse_program(TEXT)


def drawn(program: Program, bound: int = 3072) -> ET.Element:
    return ET.fromstring(memory_svg(program, bound))


def texts(picture: ET.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


def rectangles(picture: ET.Element) -> list[ET.Element]:
    return [r for r in picture.iter(f"{SVG}rect") if r.get("class") == "buffer"]


def test_buffers_stay_from_their_first_instruction_to_their_last(program: Program) -> None:
    timeline = Timeline(program)
    assert len(timeline.steps) == 5
    stays = [(s.buffer.name, s.start, s.last, s.address) for s in timeline.allocations]
    assert stays == [("a <b>", 0, 3, 0), ("b", 1, 3, 1024), ("c", 3, 4, 2048)]
    assert [work_of(stay.maker) for stay in timeline.allocations] == ["exp", "softmax", "copy"]


def test_the_peak_is_where_most_bytes_are_live(program: Program) -> None:
    timeline = Timeline(program)
    assert timeline.live_bytes == [1024, 2048, 2048, 3072, 1024]
    assert timeline.peak == 3
    assert [stay.buffer.name for stay in timeline.live_at(1)] == ["a <b>", "b"]


def test_a_stack_is_of_its_anchors_kind(program: Program) -> None:
    stack = Timeline(program).steps[2]
    assert (kind_of(stack), work_of(stack)) == ("softmax", "softmax, exp")
    assert (kind_of(None), work_of(None), origin_of(None)) == ("nothing", "nothing", "")


def test_each_buffer_is_a_rectangle_at_its_place(program: Program) -> None:
    boxes = rectangles(drawn(program))
    places = [
        [float(box.get(side) or 0) for side in ("x", "y", "width", "height")] for box in boxes
    ]
    (first, second, third) = places
    step = first[2] / 4
    assert second[0] == pytest.approx(first[0] + step, abs=0.2)
    assert third[2] == pytest.approx(2 * step, abs=0.2)
    assert first[1] == pytest.approx(second[1] + second[3], abs=0.2)
    assert first[3] == pytest.approx(third[3], abs=0.2)


def test_tooltips_say_what_a_buffer_is(program: Program) -> None:
    titles = [box.findtext(f"{SVG}title") for box in rectangles(drawn(program))]
    assert titles[0] == ('%"a <b>": f32[256]\n1,024 B at 0\ninstructions 0 to 3\nmade by exp')


def test_origins_are_the_models_own_nodes(program: Program) -> None:
    timeline = Timeline(program)
    for index, step in enumerate(timeline.steps[2].body):
        step.origins = (f"node {index}",)
    assert origin_of(timeline.steps[2]) == "node 0, node 1"


def test_peak_bound_and_arena_are_marked(program: Program) -> None:
    picture = drawn(program, 2560)
    assert "lower bound 2,560 B" in texts(picture)
    assert "peak: 3,072 B live at instruction 3" in texts(picture)
    assert texts(picture)[:2] == [
        "main",
        "arena 3,072 B, 1.200 times the lower bound; 3 buffers, 3,072 B without sharing",
    ]
    marks = {line.get("class"): line for line in picture.iter(f"{SVG}line")}
    assert {"peak", "bound", "arena"} <= marks.keys()
    assert float(marks["bound"].get("y1") or 0) > float(marks["arena"].get("y1") or 0)


def test_names_colours_and_ticks(program: Program) -> None:
    picture = drawn(program)
    assert {"a <b>", "b", "c", "exp", "softmax", "copy", "1 KiB", "3 KiB"} <= {*texts(picture)}
    assert len({box.get("fill") for box in rectangles(picture)}) == 3


def test_long_names_are_cut() -> None:
    name = "layer_" * 40
    text = TEXT.replace('"a <b>"', name)
    shown = [text for text in texts(drawn(parse_program(text))) if text.startswith("layer_")]
    assert len(shown) == 1
    assert shown[0].endswith("…")


def test_a_program_without_an_arena_has_an_empty_picture() -> None:
    program = parse_program("program @main arena 0 {\n}")
    assert rectangles(drawn(program, 0)) == []


def test_the_same_program_gives_the_same_picture(program: Program) -> None:
    assert memory_svg(program, 3072) == memory_svg(parse_program(TEXT), 3072)


def test_many_instructions_and_kinds_fit() -> None:
    names = ("exp", "log", "neg", "abs", "tanh", "sqrt", "relu", "sigmoid", "sin", "cos")
    lines = ["program @main arena 2097152 {", "input %x : f32[262144]"]
    for index in range(1000):
        source, address = f"%b{index - 1}" if index else "%x", index % 2 * 2**20
        lines.append(f"%b{index} = alloc f32[262144] at {address}")
        lines.append(f"{names[index % len(names)]} out %b{index}, in {source}")
        lines.extend([f"dealloc {source}"] if index else [])
    picture = drawn(parse_program("\n".join([*lines, "dealloc %b999", "}"])), 2**21)
    assert len(rectangles(picture)) == 1000
    assert {"other", "1 MiB", "900"} <= {*texts(picture)}
    assert max(float(r.get("x") or 0) for r in rectangles(picture)) < float(picture.get("width"))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**20, "1 MiB"), (5 * 2**30, "5 GiB")],
)
def test_bytes_in_their_unit(count: int, text: str) -> None:
    assert bytes_text(count) == text
