from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx.parser

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx")
SMALL = """
<ir_version: 8, opset_import: ["": 17]>
small (float[1, 2, 8, 8] x) => (float[1, 2, 4, 4] y) <float[2, 2, 1, 1] w = {1, 2, 3, 4}> {
  convolved = Conv (x, w)
  positive = Relu (convolved)
  y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (positive)
}
"""


def test_the_arena_fits_a_budget(command):
    free = command("compile", DIGITS, "--json").json["memory"]["arena_bytes"]
    data = command("compile", DIGITS, "--max-arena", "4KiB", "--json").json
    assert data["memory"]["arena_bytes"] <= 4 * 1024 < free
    assert "fit arena" in data["seconds"]


def test_numbers_are_the_same(command, tmp_path):
    folders = [tmp_path / "free", tmp_path / "tight"]
    for folder, more in zip(folders, ((), ("--max-arena", "4KiB")), strict=True):
        assert command("run", DIGITS, "--output-dir", str(folder), *more).status == 0
    free, tight = (np.load(folder / "probabilities.npy") for folder in folders)
    np.testing.assert_allclose(tight, free, rtol=1e-5)


def test_bands_can_be_seen(command):
    more = ("--max-arena", "4KiB")
    assert ".band1 = conv(" in command("dump", DIGITS, "--stage", "lowered", *more).out
    assert "arena_bytes" in command("explain", DIGITS, "--json", *more).json


def test_splitting_is_a_pass_to_look_at(command):
    more = ("--stage", "lowered", "--dump-after", "fit-arena")
    assert command("dump", DIGITS, *more).status == 2
    text = command("dump", DIGITS, *more, "--max-arena", "4KiB").out
    assert text.startswith("; after fit-arena")


def test_a_budget_out_of_reach_names_one_that_is_enough(command, tmp_path):
    path = str(tmp_path / "small.onnx")
    onnx.save(onnx.parser.parse_model(SMALL), path)
    finished = command("compile", path, "--max-arena", "100")
    assert finished.status == 3
    first, *_, last = finished.err.splitlines()
    found = re.fullmatch(r"error: the arena does not fit 100 bytes, but would fit ([\d,]+)", first)
    assert found
    assert last.startswith(f"  help: allow {found[1]} bytes, or make the tensors there smaller")
    enough = found[1].replace(",", "")
    assert int(enough) < 1024
    assert command("compile", path, "--max-arena", enough).status == 0


def test_a_size_that_is_none(command):
    command.fails(
        2,
        """
        error: 'much' is not an amount of memory
          help: write 256KiB, 1MB, or a number of bytes
        """,
        "compile",
        DIGITS,
        "--max-arena",
        "much",
    )
