from __future__ import annotations

from tests.cli import models


def test_times_and_memory_are_shown(command, tmp_path):
    finished = command("compile", models.linear(tmp_path))
    assert finished.status == 0
    first = [line.split()[0] for line in finished.out.splitlines() if line.split()]
    for word in ("import", "optimise", "lower", "total", "arena", "weights"):
        assert word in first


def test_the_same_as_json(command, tmp_path):
    data = command("compile", models.linear(tmp_path), "--json").json
    assert data["memory"]["weight_bytes"] == 48
    assert data["memory"]["io_bytes"] == 4 * (2 * 3 + 2 * 4)
    assert data["memory"]["arena_bytes"] >= data["memory"]["lower_bound_bytes"]
    assert data["instructions"] == 2
    assert data["stacks"] in (0, 1)
    assert {"import", "optimise", "lower"} <= set(data["seconds"])


def test_the_planned_program_is_written(command, tmp_path):
    path = models.linear(tmp_path)
    finished = command("compile", path, "-o", str(tmp_path / "program.txt"))
    assert finished.status == 0
    last = finished.out.splitlines()[-1]
    assert last.startswith("2 instructions, ")
    assert last.endswith(f" stacks, written to {tmp_path / 'program.txt'}")
    expected = command("dump", path, "--stage", "instructions").out
    assert (tmp_path / "program.txt").read_text() == expected


def test_help_says_what_is_not_there_yet(command):
    assert "Saving machine code comes with the native backend" in " ".join(
        command("compile", "--help").out.split()
    )


def test_free_dimensions_must_be_bound(command, tmp_path):
    path = models.batched(tmp_path)
    assert command("compile", path).status == 2
    assert command("compile", path, "--dim", "batch=2").status == 0


def test_an_unsupported_model(command, tmp_path):
    assert command("compile", models.strange(tmp_path)).status == 3
