from __future__ import annotations

import numpy as np

import afterglow
from tests.cli import models


def test_times_and_memory_are_shown(command, tmp_path):
    finished = command("compile", models.linear(tmp_path))
    assert finished.status == 0
    first = [line.split()[0] for line in finished.out.splitlines() if line.split()]
    for word in ("import", "optimise", "lower", "total", "arena", "weights"):
        assert word in first


def test_the_same_as_json(command, tmp_path):
    data = command("compile", models.linear(tmp_path), "--json").json
    assert data["memory"]["weight_bytes"] == 64  # 48, padded to a line of cache
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


def test_the_compiled_model_is_saved(command, tmp_path):
    path, saved = models.linear(tmp_path), tmp_path / "linear.agc"
    finished = command("compile", path, "-o", str(saved), "--threads", "1")
    assert finished.status == 0
    assert finished.out.splitlines()[-1].endswith(f"written to {saved}")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    loaded, compiled = afterglow.load(saved), afterglow.compile(path)
    np.testing.assert_array_equal(loaded(x), compiled(x))


def test_a_list_of_outputs_stays_one_when_saved(command, tmp_path):
    saved = tmp_path / "parts.agc"
    assert command("compile", models.parts(tmp_path), "-o", str(saved)).status == 0
    columns = afterglow.load(saved)(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert [column.tolist() for column in columns] == [[[0], [3]], [[1], [4]], [[2], [5]]]


def test_what_the_interpreter_runs_is_saved_and_run(command, tmp_path):
    saved = str(tmp_path / "linear.agc")
    command("compile", models.linear(tmp_path), "--backend", "interpreter", "-o", saved)
    command("run", saved)


def test_a_folder_that_is_not_there(command, tmp_path):
    missing = tmp_path / "missing" / "linear.agc"
    command.fails(
        2,
        f"error: cannot write {missing}: no such file or directory",
        *("compile", models.linear(tmp_path), "-o", str(missing)),
    )


def test_an_unknown_target(command, tmp_path):
    finished = command("compile", models.linear(tmp_path), "--target", "z80")
    assert finished.status == 2
    assert "z80" in finished.err


def test_without_a_cache_nothing_is_kept(command, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("AFTERGLOW_CACHE", str(folder))
    path = models.linear(tmp_path)
    assert command("run", path, "--no-cache").status == 0
    assert not folder.exists()
    assert command("run", path).status == 0
    assert [*folder.glob("kernels/*.entry")]
    assert [*folder.glob("models/*.agc")]


def test_free_dimensions_must_be_bound(command, tmp_path):
    path = models.batched(tmp_path)
    assert command("compile", path).status == 2
    assert command("compile", path, "--dim", "batch=2").status == 0


def test_an_unsupported_model(command, tmp_path):
    assert command("compile", models.strange(tmp_path)).status == 3
