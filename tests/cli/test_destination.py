"""What `-o` and its like mean, and what they never overwrite."""

from __future__ import annotations

import inspect
import shutil

import numpy as np
import pytest

import afterglow as ag
from afterglow.support.errors import UsageError
from tests.cli import models

PLACES = """\
help: end the name with .agc for a compiled model; .txt or .agi for a program as text; \
.onnx for an ONNX model; / for the folder of a bundle"""


@pytest.mark.parametrize(
    ("verb", "option"), [("compile", "-o"), ("dump", "-o"), ("dump", "--payload")]
)
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_model_is_never_written_over_itself(command, tmp_path, verb, option, force):
    model = models.linear(tmp_path)
    before = (tmp_path / "linear.onnx").read_bytes()
    assert command(verb, model, option, model, *force).status == 2
    assert (tmp_path / "linear.onnx").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("compile", "-o"), "linear.agc"),
        (("compile", "-o"), "linear.txt"),
        (("dump", "-o"), "linear.txt"),
        (("dump", "--payload"), "linear.npz"),
        (("explain", "--memory"), "linear.svg"),
    ],
)
def test_a_model_by_any_name_is_never_written_over(command, tmp_path, words, name):
    models.linear(tmp_path)
    path = (tmp_path / "linear.onnx").rename(tmp_path / name)
    before = path.read_bytes()
    command.fails(
        2,
        f"""
        error: {path} is the model itself, which is never overwritten
          help: give another name
        """,
        *(words[0], str(path), words[1], str(path), "--force"),
    )
    link = tmp_path / f"link{path.suffix}"
    link.symlink_to(path)
    assert command(words[0], str(path), words[1], str(link), "--force").status == 2
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "name", "kind"),
    [
        (("compile", "-o"), "out.agc", "a compiled model"),
        (("compile", "-o"), "out.txt", "a program as text"),
        (("compile", "-o"), "out.onnx", "an ONNX model"),
        (("dump", "-o"), "out.txt", "a graph as text"),
        (("dump", "--stage", "instructions", "-o"), "out.agi", "a program as text"),
        (("dump", "--stage", "llvm", "-o"), "out.ll", "LLVM IR"),
        (("dump", "--stage", "asm", "-o"), "out.s", "assembly"),
        (("dump", "--dot", "-o"), "out.dot", "a Graphviz graph"),
        (("dump", "--payload"), "out.npz", "an archive of arrays"),
        (("explain", "--memory"), "out.svg", "a picture"),
    ],
)
def test_only_files_of_ours_are_replaced(command, tmp_path, words, name, kind):
    model, path = models.linear(tmp_path), tmp_path / name
    command_line = (words[0], model, *words[1:], str(path))
    path.write_bytes(b"a user's own work\n")
    command.fails(
        2,
        f"""
        error: {path} already exists and is not {kind} written by Afterglow
          help: give another name, or --force to overwrite it
        """,
        *command_line,
    )
    assert path.read_bytes() == b"a user's own work\n"
    assert command(*command_line, "--force").status == 0
    ours = path.read_bytes()
    assert command(*command_line).status == 0
    assert path.read_bytes() == ours
    assert [*tmp_path.glob(".*")] == []


def test_a_picture_of_graphviz_is_known_again(command, tmp_path):
    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not here")
    words = ("dump", models.linear(tmp_path), "--svg", "-o", str(tmp_path / "graph.svg"))
    assert command(*words).status == command(*words).status == 0


@pytest.mark.parametrize("name", ["net.v2", "a.so", "model.pb", "a.o", "-"])
def test_a_name_that_does_not_say_what_to_write(command, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    command.fails(
        2,
        f"""
        error: -o {name}: the extension does not say what to write
          {PLACES}
        """,
        *("compile", models.linear(tmp_path), "-o", name),
    )
    assert [path.name for path in tmp_path.iterdir()] == ["linear.onnx"]


def test_a_name_with_a_slash_is_a_folder(command, tmp_path):
    assert command("compile", models.linear(tmp_path), "-o", f"{tmp_path}/net.v2/").status == 0
    assert (tmp_path / "net.v2" / "linear.o").exists()
    assert command("compile", models.linear(tmp_path), "-o", f"{tmp_path}/net.v2").status == 0


@pytest.mark.parametrize("option", ["--shared", "--small", "--embed-weights", "--freestanding"])
def test_options_of_a_bundle_contradict_a_file(command, tmp_path, option):
    path = tmp_path / "a.agc"
    command.fails(
        2,
        f"""
        error: {option} is an option for bundles, but {path} names a file
          help: give a folder for the bundle: -o a/
        """,
        *("compile", models.linear(tmp_path), "-o", str(path), option),
    )
    assert not path.exists()


def test_a_bundle_is_not_written_over_a_file(command, tmp_path):
    (tmp_path / "out").write_text("mine")
    command.fails(
        2,
        f"""
        error: cannot write a bundle to {tmp_path / "out"}: it is a file
          help: give a folder
        """,
        *("compile", models.linear(tmp_path), "-o", str(tmp_path / "out")),
    )


def test_a_file_is_not_written_over_a_folder(command, tmp_path):
    (tmp_path / "out.agc").mkdir()
    command.fails(
        2,
        f"""
        error: cannot write {tmp_path / "out.agc"}: it is a folder
          help: give the name of a file
        """,
        *("compile", models.linear(tmp_path), "-o", str(tmp_path / "out.agc")),
    )


@pytest.mark.parametrize(
    ("words", "help"),
    [
        (("-o", "x.onnx"), ".txt or .agg for a graph as text"),
        (("--stage", "asm", "-o", "x.svg"), ".s or .asm or .txt for assembly"),
        (("--dot", "-o", "x.txt"), ".dot or .gv for a Graphviz graph"),
        (("-o", "x/"), ".txt or .agg for a graph as text"),
    ],
)
def test_what_is_dumped_decides_how_names_end(command, tmp_path, words, help):
    command.fails(
        2,
        f"""
        error: -o {words[-1]}: the extension does not say what to write
          help: end the name with {help}
        """,
        *("dump", models.linear(tmp_path), *words),
    )


def test_a_dump_goes_to_a_file_as_json_too(command, tmp_path):
    path, model = tmp_path / "graph.txt", models.linear(tmp_path)
    data = command("dump", model, "-o", str(path), "--json").json
    assert data["output"] == str(path)
    assert path.read_text() == data["text"]


def test_a_dump_goes_to_standard_output_by_name(command, tmp_path):
    model = models.linear(tmp_path)
    assert command("dump", model, "-o", "-").out == command("dump", model).out


def test_a_projects_files_are_not_overwritten_by_a_bundle(command, tmp_path):
    model = models.linear(tmp_path)
    names = ("README.md", "Makefile", "main.c")
    for name in names:
        (tmp_path / name).write_text("mine")
    words = ("compile", model, "-o", str(tmp_path))
    command.fails(
        2,
        f"""
        error: {tmp_path} has files that are not of a bundle: Makefile, README.md, main.c
          help: give another folder, or force (--force) to replace them
        """,
        *words,
    )
    assert {(tmp_path / name).read_text() for name in names} == {"mine"}
    assert not (tmp_path / "linear.o").exists()
    assert command(*words, "--force").status == 0
    assert command(*words).status == 0


def test_a_bundle_is_replaced_but_not_what_was_edited(command, tmp_path):
    folder = tmp_path / "out"
    words = ("compile", models.linear(tmp_path), "-o", str(folder), "--target", "x86-64")
    assert command(*words).status == 0
    assert command(*words, "--small").status == 0
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    finished = command(*words)
    assert finished.status == 2
    assert "not of a bundle: main.c" in finished.err


def test_weights_beside_a_model_are_never_overwritten(command, tmp_path):
    weights = tmp_path / "linear.weights"
    model = models.external(tmp_path, weights.name)
    before = weights.read_bytes()
    command.fails(
        2,
        f"""
        error: {weights} belongs to the model itself: it is never overwritten
          help: give another folder, or another name for the bundle
        """,
        *("compile", model, "-o", str(tmp_path), "--force"),
    )
    assert weights.read_bytes() == before


def test_arrays_of_others_are_not_replaced_by_outputs(command, tmp_path):
    model = models.linear(tmp_path)
    words = ("run", model, "--output-dir", str(tmp_path))
    assert command(*words).status == command(*words).status == 0
    command.fails(
        2,
        f"""
        error: {tmp_path / "y.npy"} already exists, with different contents
          help: give another folder, or --force to replace it
        """,
        *(*words, "--seed", "1"),
    )
    assert command(*words, "--seed", "1", "--force").status == 0


def test_saving_from_python_does_not_replace_other_files(tmp_path):
    path = models.linear(tmp_path)
    model = ag.compile(path)
    with pytest.raises(UsageError) as caught:
        model.save(path)
    assert str(caught.value) == inspect.cleandoc(f"""
        error: {path} already exists and is not a compiled model written by Afterglow
          help: give another name, or force=True to replace it
    """)
    assert ag.compile(path)(np.ones((2, 3), np.float32)).shape == (2, 4)
    model.save(tmp_path / "linear.agc")
    model.save(tmp_path / "linear.agc")


def test_exporting_from_python_does_not_replace_other_files(tmp_path):
    model = ag.compile(models.linear(tmp_path))
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(UsageError, match=r"not of a bundle: README\.md"):
        model.export_bundle(tmp_path, target="x86-64")
    model.export_bundle(tmp_path, target="x86-64", force=True)
