from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import onnx
import pytest

from afterglow.backends.cpu import Target
from tests.ops.own_ops import forget_own_ops

__all__ = ["forget_own_ops"]  # a lesson declares ops, and runs in this process

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
LESSONS = sorted(EXAMPLES.glob("[0-9]*.py"))
MOST_LINES = 80


def output_of(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lessons_are_short(path):
    assert len(path.read_text().splitlines()) <= MOST_LINES


def test_lessons_are_numbered():
    assert [path.name[:2] for path in LESSONS] == [f"{i:02}" for i in range(1, len(LESSONS) + 1)]


def test_building_by_hand(capsys):
    text = output_of(EXAMPLES / "01_build_by_hand.py", capsys)
    assert "%probabilities = softmax(%logits) {axis = 1} : f32[2, 3]" in text
    assert float(re.search(r"largest difference from NumPy: (\S+)", text)[1]) < 1e-6
    assert "error: matmul: " in text


def test_importing_and_running(capsys):
    text = output_of(EXAMPLES / "02_import_and_run.py", capsys)
    assert "inputs: image: f32[1, 1, 8, 8]" in text
    assert "98.5% of 200 images are classified correctly" in text
    assert float(re.search(r"largest difference: (\S+)", text)[1]) < 1e-5
    assert "error: input 'image' holds float32, got float64" in text


def test_looking_inside(capsys):
    text = output_of(EXAMPLES / "03_look_inside.py", capsys)
    for stage in ("import", "graph", "lowered", "instructions"):
        assert f"--- {stage}" in text
    assert "text round trip: True" in text
    assert 'digraph "main" {' in text


def test_writing_a_pass(capsys):
    text = output_of(EXAMPLES / "04_write_a_pass.py", capsys)
    before, after = text.split("after:")
    assert before.count(" = mul(") == 2
    assert after.count(" = mul(") == 1
    assert float(re.search(r"largest difference: (\S+)", text)[1]) < 1e-6


def test_the_demo(capsys):
    text = output_of(EXAMPLES / "demo.py", capsys)
    assert "197 of 200 correct" in text
    assert float(re.search(r"PyTorch's probabilities: (\S+)", text)[1]) < 1e-5
    assert len(text.splitlines()) <= 70


def test_the_model_is_small_and_valid_and_leaves_work_to_do():
    path = EXAMPLES / "digits" / "digits.onnx"
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert path.stat().st_size < 100_000
    ops = [node.op_type for node in model.graph.node]
    assert ops.count("BatchNormalization") == 2
    images = np.load(EXAMPLES / "digits" / "test_images.npz")
    assert images["images"].shape == (200, 8, 8)


def test_skipping_what_is_not_needed(capsys):
    text = output_of(EXAMPLES / "05_skip_what_is_not_needed.py", capsys)
    assert "relu(%matmul_1) if %unsure : f32[1, 512]" in text
    assert "sure: equal results: True\n" in text
    assert "unsure: equal results: True\n" in text
    skipped, computed = re.search(r"\nsure: (\d+) µs with predicates, (\d+) µs", text).groups()
    assert int(skipped) < int(computed)


def test_quantizing(capsys):
    text = output_of(EXAMPLES / "06_quantize.py", capsys)
    right = [float(share) for share in re.findall(r"(\S+)% right", text)]
    assert min(right[:2]) >= right[2] - 0.5
    floats, integers = (
        int(x.replace(",", "")) for x in re.findall(r"([\d,]+) (?:bytes )?in ", text)[:2]
    )
    # Without an instruction for dot products of bytes, weights of some layers take 16 bits.
    assert integers < (0.35 if Target.host().dot_mixed_signs else 0.5) * floats
    assert "in floats: conv1; with 16 bits: conv2" in text


def shortened(name: str, capsys: pytest.CaptureFixture[str], **smaller: int) -> str:
    """What a lesson prints that learns for a shorter time than it would by itself."""
    runpy.run_path(str(EXAMPLES / name))["main"](**smaller)
    return capsys.readouterr().out


def test_training_digits(capsys):
    text = shortened("07_train_digits.py", capsys, epochs=3)
    assert float(re.search(r"(\S+)% of 200 test images", text)[1]) > 80
    assert re.search(r"the first test image is a \d", text)


def test_training_characters(capsys):
    text = shortened("08_train_characters.py", capsys, epochs=2, steps=8, blocks=1, length=8)
    first, last = re.search(r"fell from (\S+) to (\S+)", text).groups()
    assert float(last) < float(first) - 0.3
    assert len(text.partition("The License ")[2]) == 9


def test_fine_tuning(capsys):
    text = shortened("09_fine_tune.py", capsys, epochs=1)
    before, after = zip(*re.findall(r"(\S+)% right before, (\S+)% after", text), strict=True)
    assert max(map(float, before)) < 30 < 60 < min(map(float, after))
    assert f"{after[1]}% right" in text.splitlines()[-1]


def test_ops_of_your_own(capsys):
    text = output_of(EXAMPLES / "10_ops_of_your_own.py", capsys)
    assert "plan tiled" in text
    assert "acme::rank out %order, in %d {descending = false} plan host" in text
    assert "the nearest center is right for 100% of all points" in text
    assert "error: unknown index l" in text


def test_generating_text(capsys):
    text = output_of(EXAMPLES / "11_generate_text.py", capsys)
    first, *drawn, vowels, again = text.splitlines()
    assert len(first) == 24
    assert set(vowels) <= set("aeiou ")
    assert drawn[0].startswith(again.removeprefix("the same seed, alone: "))
