from __future__ import annotations

from pathlib import Path

import pytest

from afterglow.report.page import collect
from afterglow.runtime.rates import MemoryLevel, Rates
from tests.cli import models

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx")
STAGES = ["model", "import", "graph", "lowered", "instructions"]


@pytest.fixture(autouse=True)
def usual_rates(monkeypatch):
    """Rates as they might be: to measure them takes seconds."""
    rates = Rates(flops=1e11, levels=(MemoryLevel(1 << 30, 1e10),), run_seconds=1e-5)

    def known(device, cache, measure=None):
        return rates

    monkeypatch.setattr(collect, "rates_of", known)
    monkeypatch.setattr("afterglow.driver.partitioning.rates_of", known)
    monkeypatch.setattr(collect, "RUN_SECONDS", 0.01)


def names(data):
    return [stage["name"] for stage in data["stages"]]


def test_a_page_is_written(command, tmp_path):
    page = tmp_path / "report.html"
    finished = command("report", DIGITS, "-o", str(page), "--repeat", "2")
    assert finished.status == 0
    assert finished.out == f"report written to {page}\n"
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert len(text) < 150_000


def test_the_same_facts_as_json(command, tmp_path):
    path = tmp_path / "report.json"
    data = command("report", DIGITS, "--json", "-o", str(path), "--repeat", "2").json
    assert names(data) == STAGES
    assert data["output"] == str(path)
    assert path.read_text().startswith('{"format": "afterglow report"')
    assert data["missing"] == []
    labels = [label for label, _ in data["facts"]]
    assert labels == [
        *("backend", "target", "threads", "options"),
        *("arena", "weights", "instructions", "measured time", "expected time"),
    ]
    assert data["inputs"] == [["image", "f32[1, 1, 8, 8]"]]
    assert data["roofline"]["peak_flops"] == 1e11


def test_instructions_have_plans_times_and_addresses(command):
    data = command("report", DIGITS, "--json", "--repeat", "2").json
    steps = [node for node in data["stages"][-1]["nodes"] if "step" in node]
    assert [step["step"] for step in steps] == [*range(len(steps))]
    assert all(step["seconds"] > 0 and step["kernel"] and step["plan"] for step in steps)
    assert sum(step["seconds"] for step in steps) == pytest.approx(data["times"]["seconds"])
    assert any(address is not None for step in steps for *_, address in step["buffers"])
    conv = next(step for step in steps if step["op"].startswith("conv"))
    plans = data["choices"][conv["choice"]]["candidates"]
    assert plans[0]["plan"] == conv["plan"]
    assert "pool1" in [data["origins"][n] for node in steps for n in node["origins"]]


def test_the_memory_map_is_that_of_explain(command):
    data = command("report", DIGITS, "--json", "--no-time").json["memory"]
    explained = command("explain", DIGITS, "--json").json
    assert data["arena_bytes"] == explained["arena_bytes"]
    assert data["peak"] == explained["peak"]["instruction"]
    assert max(data["live_bytes"]) == explained["peak"]["live_bytes"]
    assert len(data["allocations"]) == explained["buffers"]


def test_without_times_everything_else_is_there(command):
    data = command("report", DIGITS, "--json", "--no-time").json
    assert names(data) == STAGES
    assert "times" not in data
    assert "roofline" not in data
    assert data["missing"] == ["Nothing was timed: the report was made with --no-time."]


def test_a_peak_below_what_kernels_reach_is_measured_again(command, monkeypatch):
    busy = Rates(flops=1.0, levels=(MemoryLevel(1 << 30, 1e10),))
    quiet = Rates(flops=1e12, levels=(MemoryLevel(1 << 30, 1e10),))
    monkeypatch.setattr(collect, "rates_of", lambda d, c, measure=None: quiet if measure else busy)
    data = command("report", DIGITS, "--json", "--repeat", "1").json
    assert data["roofline"]["peak_flops"] == 1e12


def test_a_report_needs_a_file(command):
    command.fails(
        2,
        """
        error: a report is written to a file
          help: add -o digits.html
        """,
        *("report", DIGITS),
    )


def test_files_of_others_are_not_overwritten(command, tmp_path):
    page = tmp_path / "mine.html"
    page.write_text("mine")
    finished = command("report", DIGITS, "-o", str(page), "--no-time")
    assert finished.status == 2
    assert page.read_text() == "mine"
    assert command("report", DIGITS, "-o", str(page), "--no-time", "--force").status == 0
    assert command("report", DIGITS, "-o", str(page), "--no-time").status == 0


def test_the_interpreter_times_whole_runs_only(command):
    data = command("report", DIGITS, "--backend", "interpreter", "--json").json
    assert names(data) == STAGES
    assert "times" not in data
    assert any("does not time single instructions" in sentence for sentence in data["missing"])
    assert "measured time" in [label for label, _ in data["facts"]]


def test_code_for_another_machine_is_not_timed(command):
    data = command("report", DIGITS, "--target", "aarch64", "--json").json
    assert names(data) == STAGES
    assert any("does not run here" in sentence for sentence in data["missing"])


def test_a_compiled_model_has_times_and_sizes_only(command, tmp_path):
    saved = tmp_path / "digits.agc"
    assert command("compile", DIGITS, "-o", str(saved)).status == 0
    data = command("report", str(saved), "--json").json
    assert data["stages"] == []
    assert data["missing"][0].startswith("The file holds code and no graph")
    assert "arena" in [label for label, _ in data["facts"]]
    assert data["times"]["kernels"]
    untimed = command("report", str(saved), "--json", "--no-time").json
    assert "times" not in untimed
    page = tmp_path / "report.html"
    assert command("report", str(saved), "-o", str(page)).status == 0


def test_ranges_of_extents_are_one_program(command, tmp_path):
    path = models.batched(tmp_path)
    data = command("report", path, "--dim", "batch=1..8", "--json", "--repeat", "1").json
    assert names(data) == STAGES
    assert any("batch" in type for _, type in data["inputs"])
    assert command("report", path, "--dim", "batch=1..8", "--json", "--no-time").status == 0


def test_lists_of_extents_are_refused(command, tmp_path):
    finished = command("report", models.batched(tmp_path), "--dim", "batch=1,2", "--json")
    assert finished.status == 2
    assert "a report is for one shape" in finished.err


def test_a_model_on_several_devices_shows_its_partition(command):
    devices = ("--device", "cpu:0,threads=1", "--device", "cpu:1,threads=1")
    placed = ("--place", "conv*=cpu:1", "--place", "dense*=cpu:0")
    data = command("report", DIGITS, *devices, *placed, "--json").json
    assert names(data) == ["model", "import", "graph"]
    plan = data["partition"]
    assert {task["device"] for task in plan["tasks"]} == {"cpu:0", "cpu:1"}
    assert all(transfer["start"] >= 0 for transfer in plan["transfers"])


def test_data_dependent_shapes_show_the_model_alone(command, tmp_path):
    node = models.helper.make_node("NonZero", ["x"], ["y"], name="where")
    declared = [("x", models.FLOAT, [4])], [("y", models.INT64, [1, "n"])]
    path = models.save(tmp_path / "where.onnx", [node], *declared)
    data = command("report", path, "--json").json
    assert names(data) == ["model"]
    assert "NonZero (where)" in data["missing"][0]
