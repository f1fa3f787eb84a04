from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import afterglow as ag
from afterglow.instr import parse_program, print_program
from tests.cli import models


@pytest.mark.parametrize("stage", ["import", "graph", "lowered"])
def test_a_graph_can_be_read_back(command, tmp_path, stage):
    payload = tmp_path / "weights.npz"
    path = models.linear(tmp_path)
    finished = command("dump", path, "--stage", stage, "--payload", str(payload))
    assert finished.status == 0
    module = ag.parse_module(finished.out, dict(np.load(payload)))
    assert ag.print_module(module) == finished.out


def test_instructions_can_be_read_back(command, tmp_path):
    payload = tmp_path / "weights.npz"
    path = models.linear(tmp_path)
    finished = command("dump", path, "--stage", "instructions", "--payload", str(payload))
    program = parse_program(finished.out, dict(np.load(payload)))
    assert print_program(program) == finished.out


def test_the_text_as_json_and_in_a_file(command, tmp_path):
    path = models.linear(tmp_path)
    finished = command("dump", path)
    assert command("dump", path, "--json").json["text"] == finished.out
    assert command("dump", path, "-o", str(tmp_path / "graph.txt")).out == ""
    assert (tmp_path / "graph.txt").read_text() == finished.out


def test_origins_are_the_models_own_names(command, tmp_path):
    finished = command("dump", models.linear(tmp_path), "--origins")
    assert '%y = relu(%product) : f32[2, 4] from "second"' in finished.out


def test_a_graph_in_the_language_of_graphviz(command, tmp_path):
    finished = command("dump", models.linear(tmp_path), "--dot")
    assert finished.out.startswith('digraph "main" {')


def test_a_picture_needs_graphviz(command, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    command.fails(
        2,
        """
        error: --svg needs Graphviz, but its program 'dot' was not found
          help: install Graphviz, or use --dot and draw the graph elsewhere
        """,
        *("dump", models.linear(tmp_path), "--svg"),
    )


def test_a_picture_is_what_graphviz_draws(command, tmp_path, monkeypatch):
    def draw(words, input, **_):
        assert words == ["dot", "-Tsvg"]
        return subprocess.CompletedProcess(words, 0, f"<svg>{input.splitlines()[0]}</svg>", "")

    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dot")
    monkeypatch.setattr(subprocess, "run", draw)
    finished = command("dump", models.linear(tmp_path), "--svg")
    assert finished.out == '<svg>digraph "main" {</svg>\n'


def test_instructions_have_no_picture(command, tmp_path):
    command.fails(
        2,
        """
        error: stage instructions is not a graph and cannot be drawn
          help: give --stage import, graph or lowered
        """,
        *("dump", models.linear(tmp_path), "--stage", "instructions", "--dot"),
    )


def test_instructions_name_the_nodes_that_they_compute(command, tmp_path):
    words = ("dump", models.linear(tmp_path), "--stage", "instructions", "--origins")
    assert ' from "' in command(*words).out


def test_code_has_no_origins(command, tmp_path):
    command.fails(
        2,
        "error: --origins requires --stage import, graph, lowered or instructions",
        *("dump", models.linear(tmp_path), "--stage", "llvm", "--origins"),
    )


def test_one_picture_at_a_time(command, tmp_path):
    words = ("dump", models.linear(tmp_path), "--dot", "--svg")
    command.fails(2, "error: --dot and --svg cannot be used together", *words)


def test_an_unknown_stage(command, tmp_path):
    command.fails(
        2,
        """
        error: invalid value for '--stage': 'ptx' is not one of 'import', 'graph', 'lowered', \
'instructions', 'llvm', 'asm', 'opencl', 'triton'
          help: see afterglow dump --help
        """,
        *("dump", models.linear(tmp_path), "--stage", "ptx"),
    )


def test_free_dimensions_must_be_bound(command, tmp_path):
    command.fails(
        2,
        """
        error: the model has inputs with dynamic dimensions: 'a': f32[batch, 3], 'b': f32[batch, 3]
          help: bind them, for example --dim batch=1 or --shapes a:1x3 --shapes b:1x3
        """,
        *("dump", models.batched(tmp_path)),
    )


def test_what_can_not_be_written(command, tmp_path):
    for option, name in (("--output", "out.txt"), ("--payload", "out.npz")):
        path = tmp_path / "nowhere" / name
        command.fails(
            2,
            f"error: cannot write {path}: no such file or directory",
            *("dump", models.linear(tmp_path), option, str(path)),
        )


def test_dumps_after_a_pass(command, tmp_path):
    finished = command("dump", models.linear(tmp_path), "--dump-after", "fold-constants")
    titles = [line for line in finished.out.splitlines() if line.startswith(";")]
    assert set(titles) == {"; after fold-constants", "; stage graph"}
    assert finished.out.count("func @main") == len(titles)


def test_dumps_of_what_changed(command, tmp_path):
    words = ("dump", models.linear(tmp_path), "--stage", "lowered", "--backend", "primitives")
    finished = command(*words, "--dump-changed", "--json")
    titles = [dump["title"] for dump in finished.json["dumps"]]
    assert "after lower-ops" in titles


def test_an_unknown_pass(command, tmp_path):
    finished = command("dump", models.linear(tmp_path), "--dump-after", "magic")
    assert finished.status == 2
    assert finished.err.startswith("error: unknown pass 'magic'\n  help: choose from expand-ops, ")


def test_stopping_before_the_first_pass_leaves_the_graph_as_imported(command, tmp_path):
    path = models.linear(tmp_path)
    imported = command("dump", path, "--stage", "import").out
    for stage in ("graph", "lowered", "instructions"):
        words = ("dump", path, "--stage", stage, "--backend", "primitives", "--stop-after", "0")
        assert command(*words).out == imported


def test_stopping_among_the_passes_of_programs_prints_the_program_as_it_stands(command, tmp_path):
    path = models.linear(tmp_path)
    options = ("dump", path, "--stage", "instructions", "--time-passes", "--json")
    names = [each["name"] for each in command(*options).json["passes"]]
    runs = sum(each["runs"] for each in command(*options).json["passes"])
    assert {"remove-copies", "plan-kernels", "plan-memory"} <= set(names)
    for stage in ("instructions", "asm"):
        unplanned = command("dump", path, "--stage", stage, "--stop-after", str(runs - 1))
        assert unplanned.status == 0
        assert unplanned.out.startswith("program @")
        assert " plan " in unplanned.out
        assert "arena" not in unplanned.out
    selected = command("dump", path, "--stage", "instructions", "--stop-after", str(runs - 8))
    assert selected.out.startswith("program @")
    assert " plan " not in selected.out


def test_times_of_passes(command, tmp_path):
    path = models.linear(tmp_path)
    finished = command("dump", path, "--time-passes")
    assert finished.out == command("dump", path).out
    assert "fold-constants" in finished.err
    passes = command("dump", path, "--time-passes", "--json").json["passes"]
    assert {"name", "runs", "seconds"} == set(passes[0])


def test_code_in_two_languages(command, tmp_path):
    path = models.linear(tmp_path)
    llvm = command("dump", path, "--stage", "llvm", "--target", "aarch64")
    assert llvm.status == 0
    assert "define void @main_0(" in llvm.out
    assert 'target triple = "aarch64' in llvm.out
    assembly = command("dump", path, "--stage", "asm", "--target", "aarch64")
    assert "main_0:" in assembly.out
    assert "ret" in assembly.out.split()


def test_code_has_neither_picture_nor_payload(command, tmp_path):
    path = models.linear(tmp_path)
    command.fails(
        2,
        """
        error: stage asm is not a graph and cannot be drawn
          help: give --stage import, graph or lowered
        """,
        *("dump", path, "--stage", "asm", "--dot"),
    )
    command.fails(
        2,
        "error: --payload requires --stage import, graph, lowered or instructions",
        *("dump", path, "--stage", "llvm", "--payload", str(tmp_path / "payload.npz")),
    )


def test_the_interpreter_makes_no_code(command, tmp_path):
    command.fails(
        2,
        """
        error: backend 'interpreter' generates no code to print
          help: use the default backend
        """,
        *("dump", models.linear(tmp_path), "--stage", "llvm", "--backend", "interpreter"),
    )
