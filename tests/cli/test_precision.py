from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import models

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx")
SMALL = ("--precision", "weights_bf16", "--optimize-for", "memory")


def test_types_are_shown(command, tmp_path):
    path = models.linear(tmp_path)
    assert "bf16[" not in command("dump", path).out
    assert ": bf16[3, 4]" in command("dump", path, *SMALL).out
    assert "bf16[3, 4]" in command("explain", path, *SMALL, "--json").out
    assert "bf16[3, 4]" in command("profile", path, *SMALL, "--json").out


def test_the_pass_is_known_where_it_runs(command, tmp_path):
    path = models.linear(tmp_path)
    finished = command("dump", path, *SMALL, "--dump-after", "narrow-weights")
    assert "; after narrow-weights" in finished.out
    refused = command("dump", path, "--dump-after", "narrow-weights")
    assert refused.status == 2
    assert "unknown pass 'narrow-weights'" in refused.err


def test_the_rounding_shows_in_a_comparison(command):
    pytest.importorskip("onnxruntime")
    words = ("run", DIGITS, *SMALL, "--compare", "onnxruntime")
    assert command(*words).status == 1
    assert command(*words, "--tolerance", "0.01").status == 0


def test_a_target_that_cannot_convert(command, tmp_path):
    command.fails(
        2,
        """
        error: target 'x86-64' has no instructions that convert f16
          help: use precision weights_bf16, which every target reads fast
        """,
        "compile",
        models.linear(tmp_path),
        "--precision",
        "weights_f16",
        "--target",
        "x86-64",
    )


def test_what_stays_in_float32_is_explained(command):
    words = ("explain", DIGITS, "--precision", "float16", "--keep-float", "pool1", "--json")
    assert json.loads(command(*words).out)["float32"] == [
        {"node": "relu1", "op": "relu", "reason": "only ops in f32 read it"},
        {"node": "pool1", "op": "max_pool", "reason": "as asked"},
        {"node": "dense", "op": "add", "reason": "no product follows"},
        {
            "node": "probabilities",
            "op": "softmax",
            "reason": "softmax needs the range or the precision of f32",
        },
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--allow-op", "exp"), "error: precision 'float32' has no list of allowed ops"),
        (
            ("--precision", "bfloat16", "--keep-float", "dens"),
            "error: no node or op is called 'dens'\n  help: there are dense",
        ),
    ],
)
def test_lists_that_fit_nothing_are_refused(command, words, message):
    finished = command("explain", DIGITS, *words)
    assert finished.status == 2
    assert message in finished.err
