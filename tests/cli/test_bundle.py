"""`afterglow compile -o FOLDER`."""

from __future__ import annotations

import json

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
