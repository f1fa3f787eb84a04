from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from afterglow.cli import explain as explain_module
from afterglow.driver import partitioning
from afterglow.runtime.rates import MemoryLevel, Rates
from tests.cli import models

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def test_the_plan_is_shown(command):
    finished = command("explain", str(DIGITS))
    assert finished.status == 0
    for text in ("arena, lower bound", "of which copies", "largest buffers", "the peak: "):
        assert text in finished.out
    largest = command("explain", str(DIGITS), "--json").json["largest"][0]
    for text in (largest["name"], largest["type"], largest["made_by"], f"{largest['bytes']:,}"):
        assert text in finished.out


def test_the_same_as_json(command):
    data = command("explain", str(DIGITS), "--json").json
    assert data["arena_bytes"] >= data["lower_bound_bytes"] > 0
    assert data["ratio"] == data["arena_bytes"] / data["lower_bound_bytes"]
    assert data["unshared_arena_bytes"] >= data["arena_bytes"]
    assert data["copies"] == 0
    assert data["buffers"] == len(data["largest"])
    sizes = [buffer["bytes"] for buffer in data["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    assert data["picture"] is None


def test_what_is_live_at_the_peak(command):
    peak = command("explain", str(DIGITS), "--json").json["peak"]
    assert peak["live_bytes"] == sum(buffer["bytes"] for buffer in peak["buffers"])
    for buffer in peak["buffers"]:
        assert buffer["first_instruction"] <= peak["instruction"] <= buffer["last_instruction"]
    assert peak["origins"]


def test_at_most_ten_buffers_are_listed(command):
    data = command("explain", str(DIGITS), "--json", "--no-optimize").json
    assert data["buffers"] > 10
    assert len(data["largest"]) == 10


def test_the_picture_is_written(command, tmp_path):
    path = tmp_path / "memory.svg"
    finished = command("explain", str(DIGITS), "--memory", str(path))
    assert finished.out.splitlines()[-1] == f"memory drawn in {path}"
    picture = ET.fromstring(path.read_text())
    assert any(text.text == "digits.onnx" for text in picture.iter())
    assert command("explain", str(DIGITS), "--memory", str(path), "--json").json["picture"] == str(
        path
    )


def test_a_picture_that_can_not_be_written(command, tmp_path):
    path = tmp_path / "nowhere" / "memory.svg"
    command.fails(
        2,
        f"error: cannot write {path}: no such file or directory",
        *("explain", str(DIGITS), "--memory", str(path)),
    )


def test_a_model_without_intermediate_results(command, tmp_path):
    path = models.batched(tmp_path)
    finished = command("explain", path, "--dim", "batch=2", "--json")
    assert finished.json["arena_bytes"] == 0
    assert finished.json["ratio"] == 1
    assert finished.json["peak"] is None
    assert command("explain", path, "--shapes", "a:2x3", "--shapes", "b:2x3").status == 0


def test_free_dimensions_must_be_bound(command, tmp_path):
    command.fails(
        2,
        """
        error: the model has inputs with dynamic dimensions: 'a': f32[batch, 3], 'b': f32[batch, 3]
          help: bind them, for example --dim batch=1 or --shapes a:1x3 --shapes b:1x3
        """,
        *("explain", models.batched(tmp_path)),
    )


def test_what_kernels_chose(command):
    finished = command("explain", str(DIGITS), "--target", "x86-64-v3")
    assert "the chosen one first" in finished.out
    kernels = command("explain", str(DIGITS), "--target", "x86-64-v3", "--json").json["kernels"]
    for kernel in kernels:
        assert kernel["chosen"] == kernel["candidates"][0]["name"]
        assert kernel["origins"]
        assert all(candidate["cost"] > 0 for candidate in kernel["candidates"])
        assert all(candidate["seconds"] is None for candidate in kernel["candidates"])


def test_what_kernels_chose_between_is_timed(command, monkeypatch):
    monkeypatch.setattr(explain_module, "MEASURED_SECONDS", 0.01)
    kernels = command("explain", str(DIGITS), "--measure", "--json").json["kernels"]
    assert all(kernel["candidates"][0]["seconds"] > 0 for kernel in kernels)


def test_exact_sums_leave_no_choice(command):
    kernels = command("explain", str(DIGITS), "--exact", "--json").json["kernels"]
    convolutions = [kernel for kernel in kernels if kernel["kernel"].startswith("conv")]
    assert [len(kernel["candidates"]) for kernel in convolutions] == [1, 1]


def test_the_interpreter_chooses_nothing(command):
    assert (
        command("explain", str(DIGITS), "--backend", "interpreter", "--json").json["kernels"] == []
    )


@pytest.fixture(scope="module")
def two_devices():
    return "--device", "cpu:0,threads=1", "--device", "cpu:1,threads=1"


@pytest.fixture
def usual_rates(monkeypatch):
    """Rates as they might be: to measure them takes seconds."""
    rates = Rates(flops=1e11, levels=(MemoryLevel(1 << 30, 1e10),), run_seconds=1e-5)
    monkeypatch.setattr(partitioning, "rates_of", lambda device, cache: rates)


def test_partitions_are_shown_with_reasons(command, usual_rates, two_devices, tmp_path):
    drawn = tmp_path / "plan.svg"
    options = (*two_devices, "--place", "conv*=cpu:1", "--draw", str(drawn))
    finished = command("explain", str(DIGITS), "--partitions", *options)
    assert finished.status == 0
    for text in ("latency: ", "cpu:0", "placed there by the user", "values that cross: "):
        assert text in finished.out
    assert f"partitions drawn in {drawn}" in finished.out
    assert ET.parse(drawn).getroot().tag.endswith("svg")


def test_partitions_are_data(command, usual_rates, two_devices, tmp_path):
    drawn = tmp_path / "plan.dot"
    data = command("explain", str(DIGITS), *two_devices, "--draw", str(drawn), "--json").json
    assert [device["name"] for device in data["devices"]] == ["host memory", "cpu:0", "cpu:1"]
    assert {task["device"] for task in data["tasks"]} <= {"cpu:0", "cpu:1"}
    assert data["picture"] == str(drawn)
    assert drawn.read_text().startswith('digraph "partition"')


def test_shares_of_a_batch_are_shown(command, usual_rates, two_devices, tmp_path):
    asked = ("explain", models.batched(tmp_path), "--dim", "batch=4", *two_devices, "--split-batch")
    finished = command(*asked)
    assert "items" in finished.out
    shares = command(*asked, "--json").json["shares"]
    assert [(share["device"], share["items"]) for share in shares] == [("cpu:0", 2), ("cpu:1", 2)]
    command.fails(
        2,
        """
        error: a batch that is split has no partitions to draw
          help: leave out --draw
        """,
        *(*asked, "--draw", str(tmp_path / "batch.svg")),
    )


def test_one_device_has_no_partitions(command):
    command.fails(
        2,
        """
        error: a model on 'cpu' alone has no partitions
          help: give several devices: --backend opencl,cpu
        """,
        *("explain", str(DIGITS), "--partitions"),
    )
