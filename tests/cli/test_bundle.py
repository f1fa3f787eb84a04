"""`afterglow compile -o FOLDER`."""

from __future__ import annotations

import json

import pytest

from tests.cli import models


def test_a_folder_gets_a_bundle(command, tmp_path):
    folder = tmp_path / "out"
    path = models.linear(tmp_path)
    finished = command("compile", path, "-o", str(folder), "--target", "cortex-m4")
    assert finished.status == 0
    assert f"linear for cortex-m4, written to {folder}" in " ".join(finished.out.split())
    assert (folder / "linear.o").read_bytes()[:4] == b"\x7fELF"
    described = json.loads((folder / "linear.json").read_text())
    assert described["target"]["name"] == "cortex-m4"
    assert (folder / "linear.weights").stat().st_size == described["weights"]["bytes"]


def test_the_bundle_is_as_it_was_asked_for(command, tmp_path):
    folder = tmp_path / "out"
    finished = command(
        *("compile", models.linear(tmp_path), "-o", str(folder), "--target", "x86-64-v2"),
        *("--name", "net-1", "--embed-weights", "--freestanding", "--small"),
        "--json",
    )
    assert finished.status == 0
    about = finished.json["bundle"]
    assert about["name"] == "net_1"
    assert about["freestanding"]
    assert about["weights"]["embedded"]
    assert not (folder / "net_1.weights").exists()
    assert "int32_t net_1_run(const net_1_io *io, void *arena);" in (folder / "net_1.h").read_text()


def test_options_of_a_bundle_need_a_folder(command, tmp_path):
    command.fails(
        2,
        """
        error: --shared is an option for bundles, which are written to a folder
          help: add -o FOLDER
        """,
        *("compile", models.linear(tmp_path), "--shared"),
    )


def test_a_folder_that_cannot_be_made_is_said(command, tmp_path):
    (tmp_path / "file").write_text("")
    finished = command("compile", models.linear(tmp_path), "-o", str(tmp_path / "file" / "out"))
    assert finished.status == 2
    assert "error:" in finished.err


def test_a_bundle_is_machine_code(command, tmp_path):
    command.fails(
        2,
        """
        error: bundles are machine code, and backend 'interpreter' generates none
          help: compile the model with the default backend
        """,
        *("compile", models.linear(tmp_path), "-o", str(tmp_path / "out")),
        *("--backend", "interpreter"),
    )


def test_a_range_of_extents_is_one_entry(command, tmp_path):
    folder = tmp_path / "out"
    path = models.batched(tmp_path)
    finished = command("compile", path, "-o", str(folder), "--dim", "batch=1..4", "--json")
    assert finished.status == 0
    (entry,) = finished.json["bundle"]["entries"]
    assert [(dim["low"], dim["high"]) for dim in entry["dims"]] == [(1, 4)]


def test_lists_and_ranges_are_not_one_bundle(command, tmp_path):
    command.fails(
        2,
        """
        error: a bundle has one program for ranges, and the model has 2
          help: give bounds instead of lists of extents, dims={'NAME': (FIRST, LAST)}, or write a bundle for each program
        """,  # noqa: E501
        *("compile", models.grown(tmp_path), "-o", str(tmp_path / "out")),
        *("--dim", "past=0..3", "--dim", "width=2,3"),
    )


def test_inputs_are_kept_as_state(command, tmp_path):
    path, state = models.grown(tmp_path), ("--state", "past=present")
    dims = ("--dim", "past=0..3", "--dim", "width=2")
    finished = command("compile", path, "-o", str(tmp_path / "out"), *dims, *state, "--json")
    assert finished.status == 0
    (entry,) = finished.json["bundle"]["entries"]
    assert [port["name"] for port in entry["inputs"]] == ["x"]
    assert entry["states"][0]["level"] == {"axis": 0, "before": "past", "after": "past + 1"}
    command.fails(
        2,
        """
        error: 'past' does not name state
          help: write INPUT=OUTPUT
        """,
        *("compile", path, "--state", "past"),
    )
    command.fails(
        2,
        """
        error: a model that keeps state must be one program for all shapes
          help: give an extent or bounds of every dimension: dims={'past': (0, 1023), 'batch': 1}
        """,
        *("compile", path, "--dim", "past=1,2", *state),
    )


def test_an_extent_may_be_an_expression_over_others(command, tmp_path):
    path = models.grown(tmp_path)
    dims = ("--dim", "past=2..5", "--dim", "width=past + 1")
    finished = command("compile", path, "-o", str(tmp_path / "out"), *dims, "--json")
    assert finished.status == 0
    (entry,) = finished.json["bundle"]["entries"]
    assert entry["inputs"][1]["shape"] == ["past", "past + 1"]


def test_a_bundle_for_a_gpu_says_what_takes_memory(command, tmp_path):
    pytest.importorskip("triton", reason="triton is not installed: pip install afterglow[cuda]")
    folder = tmp_path / "out"
    options = ("--backend", "cuda", "--target", "sm_90", "-o", str(folder))
    finished = command("compile", models.linear(tmp_path), *options)
    assert finished.status == 0
    assert "code and weights" in finished.out
    assert f"linear for sm_90, written to {folder}" in " ".join(finished.out.split())
