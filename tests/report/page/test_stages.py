from __future__ import annotations

import inspect

from afterglow.graph import parse_module
from afterglow.instr import parse_program
from afterglow.memory.timeline import Timeline
from afterglow.report.page.stages import LONGEST_LINE, StageGraph, stage_of_module, stage_of_program

GRAPH = """
    const @w : f32[4, 4] = fill 1
    func @main(%x: f32[2, 4]) {
      %y = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[2, 4] from "fc"
      %z = relu(%y) : f32[2, 4] from "act"
      %s = add(%z, %x) : f32[2, 4]
      return %s
    }
"""


def stage() -> StageGraph:
    return stage_of_module("graph", "Optimised", parse_module(inspect.cleandoc(GRAPH)))


def test_the_graph_has_inputs_nodes_and_outputs_in_order():
    assert [(node.name, node.op) for node in stage().nodes] == [
        ("x", "input"),
        ("y", "matmul"),
        ("z", "relu"),
        ("s", "add"),
        ("s", "output"),
    ]
    assert [*stage().edges] == [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]


def test_each_node_knows_its_line_and_its_origin():
    shown = stage()
    lines = [shown.lines[node.line] for node in shown.nodes if node.line is not None]
    assert [line.split(" = ")[0].strip() for line in lines] == ["%y", "%z", "%s"]
    assert [node.origins for node in shown.nodes] == [(), ("fc",), ("act",), (), ()]


def test_origins_are_numbered_once_for_all_stages():
    origins: dict[str, int] = {"act": 0}
    data = stage().data(origins)
    assert origins == {"act": 0, "fc": 1}
    assert [node["origins"] for node in data["nodes"]] == [[], [1], [0], [], []]
    assert data["text"].splitlines()[2].strip().startswith("%y = matmul(%x, @w)")


def test_an_endless_line_is_shortened():
    text = StageGraph("graph", "Optimised", ["x" * 9999], [], []).data({})["text"]
    assert len(text) == LONGEST_LINE + 2


def test_a_graph_with_too_many_nodes_is_text_only(monkeypatch):
    monkeypatch.setattr("afterglow.report.page.stages.MOST_NODES", 2)
    data = stage().data({})
    assert not data["drawn"]
    assert data["edges"] == []
    assert "relu" in data["text"]


PROGRAM = """
    program @main arena 64 {
      input %x : f32[2, 4]
      output %y : f32[4, 4]
      %a = alloc f32[2, 4] at 0
      relu out %a, in %x
      %y.0 = view %y[0:2, 0:4] : f32[2, 4]
      %y.1 = view %y[2:4, 0:4] : f32[2, 4]
      copy out %y.0, in %a
      copy out %y.1, in %x
      dealloc %a
    }
"""


def test_edges_between_instructions_are_what_passes_in_memory():
    program = parse_program(inspect.cleandoc(PROGRAM))
    steps = Timeline(program).steps
    shown = stage_of_program("Instructions", program, [{"step": n} for n in range(len(steps))])
    assert [node.op for node in shown.nodes] == ["input", "relu", "copy", "copy", "output"]
    assert {*shown.edges} == {(0, 1), (1, 2), (0, 3), (2, 4), (3, 4)}
    for node in shown.nodes[1:4]:
        assert node.line is not None
        assert shown.lines[node.line].split()[0] == node.op
