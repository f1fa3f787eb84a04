"""`afterglow quantize --measure`, `--report`, `--tolerance`: what quantizing costs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from afterglow.quantization.profile import Profile
from tests.cli.command import Command
from tests.quantization.broken_layer import NETWORK, SAMPLES

WORDS = ("quantize", "net.onnx", "--data", "data.npz", "--backend", "interpreter")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and ten samples."""
    monkeypatch.chdir(tmp_path)
    onnx.save(NETWORK, "net.onnx")
    np.savez("data.npz", x=np.concatenate(SAMPLES))
    np.save("labels.npy", np.zeros(40, np.int64))
    return tmp_path


def test_layers_are_shown_the_most_costly_first(command: Command, here: Path) -> None:
    finished = command(*WORDS, "--measure", "--labels", "labels.npy")
    assert (finished.status, finished.err) == (0, "")
    assert finished.out.index(" second ") < finished.out.index(" first ")
    assert "accumulated" in finished.out
    assert "█" in finished.out
    assert "cosine similarity of the outputs: 0.9" in finished.out
    assert "accuracy, in floats and in integers: " in finished.out
    assert finished.out.rstrip().endswith("written to net.profile.json")


@pytest.mark.parametrize(
    ("file", "begin"), [("r.html", "<!DOCTYPE html>"), ("r.json", '{\n "format": "afterglow quan')]
)
def test_a_report_is_written_and_written_again(
    command: Command, here: Path, file: str, begin: str
) -> None:
    for _ in range(2):
        assert command(*WORDS, "--report", file).status == 0
    assert (here / file).read_text(encoding="utf-8").startswith(begin)


def test_sums_are_rescaled_in_integers_if_asked(command: Command, here: Path) -> None:
    assert command(*WORDS).status == 0
    words = ("--precision", "int8", "--profile", "net.profile.json", "--integer-only")
    text = command("dump", "net.onnx", "--stage", "graph", "--backend", "interpreter", *words).out
    assert text.count("= requantize(") == 2
    assert text.count("= quantize_linear(") == 1  # the input


def test_activations_have_16_bits_if_asked(command: Command, here: Path) -> None:
    assert command(*WORDS).status == 0
    words = ("dump", "net.onnx", "--stage", "graph", "--backend", "interpreter")
    words = (*words, "--precision", "int8", "--profile", "net.profile.json")
    assert command(*words, "--int16", "second").out.count(": i16[4, 16]") == 2
    assert command(*words, "--activations", "int16").out.count("dtype = i16") == 3


def test_layers_are_kept_within_a_tolerance(command: Command, here: Path) -> None:
    finished = command(*WORDS, "--tolerance", "0.001")
    assert finished.status == 0
    assert "with 16 bits: second" in finished.out
    assert "with 1 of 3 layers with 16 bits" in finished.out
    assert Profile.load("net.profile.json").kept == {"second": "int16"}
    words = ("--precision", "int8", "--profile", "net.profile.json")
    text = command("dump", "net.onnx", "--stage", "graph", "--backend", "interpreter", *words).out
    assert text.count("= quantized_matmul(") == 4  # of high and of low bytes
    data = command(*WORDS, "--tolerance", "0.9", "--metric", "top1", "--json").json
    assert data["search"]["keep"] == []
    assert len(data["report"]["layers"]) == 3


def test_a_failed_search_changes_no_file(command: Command, here: Path) -> None:
    assert command(*WORDS).status == 0
    (here / "r.json").write_text('{"format": "afterglow quantization report"}')
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    finished = command(*WORDS, "--tolerance", "1e-12", "--report", "r.json")
    assert finished.status == 2
    assert finished.err.startswith("error: the tolerance 1e-12 cannot be met with 2 of 3 layers")
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


def test_a_report_does_not_replace_files_of_others(command: Command, here: Path) -> None:
    (here / "r.json").write_text(json.dumps({"mine": 1}))
    command.fails(
        2,
        """
        error: r.json already exists and is not a report written by Afterglow
          help: give another name, or --force to overwrite it
        """,
        *(*WORDS, "--report", "r.json"),
    )
    assert not (here / "net.profile.json").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("--metric", "top1"),
            "error: --metric is for --tolerance\n  help: write --tolerance 0.01, too",
        ),
        (
            ("--labels", "labels.npy"),
            "error: --labels are for --measure\n  help: write --measure, too",
        ),
        (
            ("--scheme", "symmetric"),
            "error: a profile does not depend on how integers are chosen\n"
            "  help: give these options to afterglow compile; or add --measure, to try them",
        ),
        (
            ("--round-weights", "data.npz"),
            "error: a profile does not depend on how integers are chosen\n"
            "  help: give these options to afterglow compile; or add --measure, to try them",
        ),
        (
            ("--measure", "--round-weights", ""),
            "error: the path of the samples is empty\n  help: write --round-weights FOLDER",
        ),
        (
            ("--precision", "weights_int4"),
            "error: precision 'weights_int4' needs no profile\n"
            "  help: write --measure or --report FILE, without -o, to compare it with floats",
        ),
        (
            ("--precision", "weights_int4", "--tolerance", "0.1"),
            "error: with precision 'weights_int4', no layers are kept in floats\n"
            "  help: use precision 'int8' for a tolerance",
        ),
        (
            ("--report", "r.txt"),
            "error: --report r.txt: the extension does not say what to write\n"
            "  help: end the name with .html for a page; .json for a report",
        ),
        (
            ("--measure", "--labels", "data.npz"),
            "error: data.npz has no array labels\n  help: give a .npy file",
        ),
        (
            ("--measure", "--keep-float", "sekond"),
            "error: no layer that would compute in integers is called 'sekond'\n"
            "  help: there are second …",
        ),
    ],
)
def test_wrong_words_are_explained(
    command: Command, here: Path, words: tuple[str, ...], text: str
) -> None:
    command.fails(2, f"\n{text}", *WORDS, *words)
    assert not (here / "net.profile.json").exists()


def test_weights_are_rounded_by_samples(command: Command, here: Path) -> None:
    losses = [
        command(*WORDS, "--measure", "--force", "--json", *words).json["report"]["metrics"]
        for words in ((), ("--round-weights", "data.npz"))
    ]
    assert losses[1] != losses[0]


def test_models_that_need_no_profile_are_compared_too(command: Command, here: Path) -> None:
    words = ("--precision", "weights_int8", "--measure", "--labels", "labels.npy")
    finished = command(*WORDS, *words, "--report", "r.html")
    assert (finished.status, finished.err) == (0, "")
    lines = [line.partition(": ")[0] for line in finished.out.splitlines()]
    assert lines == [
        "samples",
        "cosine similarity of the outputs",
        "largest error",
        "same top-1",
        "accuracy, in floats and in integers",
        "divergence of the distributions",
        "perplexity, in floats and in integers",
        "weights, in floats and in integers",
    ]
    assert not (here / "net.profile.json").exists()
    assert "<table>" not in (here / "r.html").read_text(encoding="utf-8")
    data = command(*WORDS, *words[:3], "--json").json
    assert data["precision"] == "weights_int8"
    assert data["report"]["layers"] == []


def test_options_for_images_are_for_samples(command: Command, here: Path) -> None:
    command.fails(
        2,
        """
        error: --size, --mean and --std are for images of samples
          help: write --round-weights FOLDER, too
        """,
        *("compile", "net.onnx", "--mean", "0.5"),
    )
