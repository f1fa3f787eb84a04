"""The files of a bundle: what they hold, that they build, and that they are always the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import afterglow
from afterglow.backends.cpu.bundle.files import identifier
from afterglow.backends.cpu.bundle.survey import survey
from afterglow.support.errors import UnsupportedError, UsageError
from tests.backends.cpu.bundle.files.building import (
    build,
    bundle_code,
    compiler,
    export,
    interpreted,
    random_inputs,
    run,
)
from tests.emulation.models import DIGITS, MODELS
from tests.frontends.models import info, model, node

MEMORY = {"memcpy", "memmove", "memset"}
FILES = {
    *("digits.o", "digits.h", "digits.weights", "digits.json", "main.c", "pool.c", "pool.h"),
    *("Makefile", "CMakeLists.txt", "README.md", "digits.sha256"),
}
ALL_TARGETS = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


def test_a_folder_has_all_files_and_they_tell_the_same(tmp_path: Path) -> None:
    bundle = afterglow.compile(DIGITS).export_bundle(tmp_path, target="x86-64-v3")
    assert {path.name for path in tmp_path.iterdir()} == FILES
    described = json.loads((tmp_path / "digits.json").read_text())
    assert described == bundle.description
    entry, header = described["entries"][0], (tmp_path / "digits.h").read_text()
    macros = dict(re.findall(r"#define DIGITS_(\w+) (\d+)$", header, re.MULTILINE))
    for macro in ("arena_bytes", "scratch_bytes", "stack_bytes", "self_check_bytes"):
        assert int(macros[macro.upper()]) == entry[macro]
    assert int(macros["STEPS"]) == len(entry["steps"])
    assert int(macros["INPUT_IMAGE_BYTES"]) == 4 * int(macros["INPUT_IMAGE_COUNT"]) == 256
    size = (tmp_path / "digits.weights").stat().st_size
    assert size == described["weights"]["bytes"] == int(macros["WEIGHTS_BYTES"])
    assert "const float *image; /* input f32[1, 1, 8, 8] */" in header
    assert "float *probabilities; /* output f32[1, 10] */" in header


@pytest.mark.parametrize("target", ALL_TARGETS)
@pytest.mark.parametrize("label", ["cnn", "transformer", "lstm", "int8-cnn"])
def test_nothing_but_memory_functions_is_needed(label: str, target: str) -> None:
    found = survey(bundle_code(MODELS[label](), "net", target).object)
    assert found is not None
    assert set(found.undefined) <= MEMORY


@pytest.mark.parametrize("target", ALL_TARGETS)
@pytest.mark.parametrize("label", ["cnn", "transformer", "lstm", "int8-cnn"])
def test_a_freestanding_object_needs_nothing(label: str, target: str) -> None:
    found = survey(bundle_code(MODELS[label](), "net", target, freestanding=True).object)
    assert found is not None
    assert found.undefined == ()


def test_a_freestanding_bundle_runs(tmp_path: Path) -> None:
    source = MODELS["transformer"]()
    bundle = export(source, tmp_path, "net", freestanding=True)
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    assert "self-check passed" in run(program, "--self-check")
    assert bundle.description["freestanding"]


def test_the_program_runs_on_files(tmp_path: Path) -> None:
    source = MODELS["cnn"]()
    bundle = export(source, tmp_path, "net")
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    x = random_inputs(bundle)[0]
    wanted = interpreted(source, [x])[0]
    np.save(tmp_path / "x.npy", x)
    x.tofile(tmp_path / "x.raw")
    for file, threads in (("x.npy", 1), ("x.raw", 3)):
        out = tmp_path / "y.npy"
        run(program, f"x={tmp_path / file}", "--output", f"y={out}", "--threads", threads)
        np.testing.assert_allclose(np.load(out), wanted, atol=1e-5)
        out.unlink()
    best = np.argsort(-wanted.reshape(-1))[:5]
    said = run(program, f"x={tmp_path / 'x.npy'}", "--repeat", 3)
    assert [int(found) for found in re.findall(r"y\[(\d+)\]", said)] == best.tolist()
    assert "first result after" in said


def test_the_program_says_what_is_wrong(tmp_path: Path) -> None:
    export(MODELS["cnn"](), tmp_path, "net")
    program = build(
        tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")], sanitize=True
    )
    small, wide = tmp_path / "small.npy", tmp_path / "wide.npy"
    np.save(small, np.zeros(3, np.float32))
    np.save(wide, np.zeros((1, 3, 12, 10)))
    weights = tmp_path / "net.weights"
    for arguments, message in (
        ((), "give each input"),
        (("z=file",), "no such input: z=file"),
        (("x",), "write NAME=FILE"),
        ((f"x={tmp_path}/none",), "cannot read"),
        ((f"x={small}",), "the file has the wrong size"),
        ((f"x={wide}",), "the file has the wrong element type"),
        (("--hello", "1"), "no such option"),
        (("--output",), "needs a value"),
        (("--self-check", "--weights", tmp_path / "none"), "cannot read the weights"),
        (("--self-check", "--weights", small), "the weights have the wrong size"),
    ):
        assert message in run(program, *arguments, status=1)
    damaged = bytearray(weights.read_bytes())
    damaged[0] ^= 1
    weights.write_bytes(damaged)
    assert "the wrong checksum" in run(program, "--self-check", status=1)
    assert "the wrong checksum" in run(program, status=1), "without inputs, as weights come first"


def test_the_makefile_builds_and_checks(tmp_path: Path) -> None:
    export(DIGITS, tmp_path, "digits")
    command = ["make", "-C", str(tmp_path), "check", f"CC={' '.join(compiler())}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "self-check passed" in done.stdout


@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++20"])
def test_headers_are_clean(standard: str, tmp_path: Path) -> None:
    export(MODELS["lstm"](), tmp_path, "net", embed_weights=standard == "c11")
    is_c = not standard.startswith("c++")
    file = tmp_path / ("test.c" if is_c else "test.cpp")
    file.write_text('#include "net.h"\n#include "pool.h"\n#include "net.h"\n')
    command = [*compiler(), f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    done = subprocess.run(
        [*command, "-c", str(file), "-o", str(tmp_path / "test.o")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_embedded_weights_need_no_file(tmp_path: Path) -> None:
    source = MODELS["mlp"]()
    bundle = export(source, tmp_path, "net", embed_weights=True)
    assert not (tmp_path / "net.weights").exists()
    assert "weights" not in (tmp_path / "net.h").read_text().split("run(const")[1].split(")")[0]
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    assert "self-check passed" in run(program, "--self-check")
    x = random_inputs(bundle)[0]
    np.save(tmp_path / "x.npy", x)
    run(program, f"x={tmp_path / 'x.npy'}", "--output", f"y={tmp_path / 'y.npy'}")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), interpreted(source, [x])[0], atol=1e-5)


SCRIPT = """
import sys
import afterglow
model = afterglow.compile("examples/digits/digits.onnx", cache=False)
model.export_bundle(sys.argv[1], target="x86-64-v2", freestanding=True)
"""


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    assert [process.wait() for process in processes] == [0, 0]
    files = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert files
    for name in files:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_small_code_is_smaller() -> None:
    source = MODELS["transformer"]()
    fast, small = (bundle_code(source, "net", small=wish).code_bytes for wish in (False, True))
    assert small < fast


def test_what_needs_the_host_is_refused(tmp_path: Path) -> None:
    text = info("x", (2,), TensorProto.STRING)
    nodes = [node("StringNormalizer", ["x"], ["y"], name="lower", case_change_action="LOWER")]
    source = model(nodes, inputs=[text], outputs=[info("y", (2,), TensorProto.STRING)])
    with pytest.raises(UnsupportedError, match="a bundle has no host to run 1 nodes") as caught:
        afterglow.compile(source).export_bundle(tmp_path)
    assert "change_case (lower)" in caught.value.excerpt[0]


def test_wrong_wishes_are_refused(tmp_path: Path) -> None:
    compiled = afterglow.compile(MODELS["mlp"]())
    with pytest.raises(UsageError, match="cannot be optimised for 'beauty'"):
        compiled.export_bundle(tmp_path, optimize_for="beauty")
    with pytest.raises(UsageError, match="no target is called 'toaster'"):
        compiled.export_bundle(tmp_path, target="toaster")
    compiled.save(tmp_path / "mlp.agc")
    with pytest.raises(UsageError, match="a loaded model cannot be exported"):
        afterglow.load(tmp_path / "mlp.agc").export_bundle(tmp_path)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("x", "x"),
        ("input:0", "input_0"),
        ("7up", "t_7up"),
        ("été", "t"),
        ("", "t"),
        ("double", "double_"),
        ("/layer/Conv_1", "layer_Conv_1"),
    ],
)
def test_names_become_identifiers(name: str, wanted: str) -> None:
    assert identifier(name) == wanted
