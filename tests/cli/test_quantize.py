from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from afterglow.cli.progress import SampleBar
from afterglow.quantization.profile import Profile
from tests.cli.command import Command
from tests.cli.models import linear
from tests.cli.test_explain import DIGITS


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ten samples of two rows each, for the linear model."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(2).standard_normal((20, 3)).astype(np.float32)
    np.savez("data.npz", x=x)
    return tmp_path


def test_a_profile_is_written_beside_a_table(command: Command, here: Path) -> None:
    finished = command("quantize", linear(here), "--data", "data.npz", "--threads", "1")
    assert finished.status == 0
    assert "99.9 % within" in finished.out
    assert "10 samples" in finished.out
    assert finished.out.rstrip().endswith("written to linear.profile.json")
    assert Profile.load("linear.profile.json").samples == 10


def test_the_same_as_json(command: Command, here: Path) -> None:
    words = ("--data", "data.npz", "--limit", "3", "-o", "p.json", "--json")
    data = command("quantize", linear(here), *words).json
    x = np.load("data.npz")["x"][:6]
    assert (data["samples"], data["output"], data["left_out"]) == (3, "p.json", [])
    first = data["values"][0]
    assert (first["name"], first["runs"]) == ("x", 3)
    assert (first["low"], first["high"]) == (x.min(), x.max())
    assert 0 < first["typical"] <= max(-first["low"], first["high"])


def test_profiles_are_merged(command: Command, here: Path) -> None:
    model = linear(here)
    command("quantize", model, "--data", "data.npz", "-o", "a.json")
    command("quantize", model, "--data", "data.npz", "--merge", "a.json", "-o", "a.json")
    assert Profile.load("a.json").samples == 20


def test_a_folder_of_images_is_read(command: Command, here: Path) -> None:
    folder = here / "images"
    folder.mkdir()
    for number in range(3):
        pixels = np.full((20, 30), 40 * number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    words = ("--data", "images", "--mean", "0.5", "--std", "0.25", "--json", "-o", "p.json")
    data = command("quantize", str(DIGITS), *words).json
    assert data["samples"] == 3
    assert data["values"][0]["low"] == -2 / 16  # the model divides by 16 first


def test_a_profile_of_another_model_changes_no_file(command: Command, here: Path) -> None:
    model = linear(here)
    command("quantize", model, "--data", "data.npz", "-o", "a.json")
    before = (here / "a.json").read_bytes()
    finished = command(
        "quantize", str(DIGITS), "--data", "data.npz", "--merge", "a.json", "-o", "a.json"
    )
    assert finished.status == 2
    assert "error: the profile is of another model, linear.onnx" in finished.err
    assert (here / "a.json").read_bytes() == before


def test_files_of_others_are_not_overwritten(command: Command, here: Path) -> None:
    model = linear(here)
    (here / "p.json").write_text(json.dumps({"mine": 1}))
    words = ("quantize", model, "--data", "data.npz", "-o", "p.json")
    command.fails(
        2,
        """
        error: p.json already exists and is not a profile written by Afterglow
          help: give another name, or --force to overwrite it
        """,
        *words,
    )
    assert command(*words, "--force").status == 0
    assert command(*words).status == 0


def test_a_failed_run_leaves_no_file(command: Command, here: Path) -> None:
    x = np.zeros((4, 3), np.float32)
    x[3, 1] = np.inf
    np.save("bad.npy", x)
    command.fails(
        1,
        """
        error: value %x is infinite, so it has no range to quantize
          an input of the model, in bad.npy[1]
          help: quantize a model that computes finite numbers, and give samples like its inputs
        """,
        *("quantize", linear(here), "--data", "bad.npy"),
    )
    assert not (here / "linear.profile.json").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("--data", ""),
            "error: the path of the samples is empty\n  help: write --data FOLDER",
        ),
        (
            ("--data", "data.npz", "--mean", "a,b"),
            "error: --mean must be numbers with commas between them, got 'a,b'\n"
            "  help: write --mean 0.485,0.456,0.406, or one number for all channels",
        ),
        (
            ("--data", "data.npz", "--size", "224"),
            "error: '224' is no size of an image\n  help: write HEIGHTxWIDTH, such as 224x224",
        ),
        (
            ("--data", "data.npz", "-o", "p.txt"),
            "error: -o p.txt: the extension does not say what to write\n"
            "  help: end the name with .json for a profile",
        ),
        (
            ("--data", "data.npz", "--merge", "none.json"),
            "error: cannot read none.json: no such file or directory",
        ),
    ],
)
def test_wrong_words_are_explained(
    command: Command, here: Path, words: tuple[str, ...], text: str
) -> None:
    command.fails(2, f"\n{text}", "quantize", linear(here), *words)


def test_samples_are_counted_on_a_terminal() -> None:
    text = StringIO()
    with SampleBar(Console(file=text, force_terminal=True, width=80)) as bar:
        bar.stage("optimise")
        bar.sample(2, None)
        bar.sample(3, 7)
    assert "3/7" in text.getvalue()
    assert bar.seconds > 0
