"""Lists and ranges of extents: `--dim batch=1,4,8`, `--dim seq=1..512`."""

from __future__ import annotations

import json

import numpy as np
import pytest

import afterglow
from tests.cli import models

INTERPRETED = ("--backend", "interpreter")


def test_a_model_is_run_for_each_extent(command, tmp_path):
    finished = command("run", models.batched(tmp_path), "--dim", "batch=2,5", *INTERPRETED)
    assert finished.status == 0
    lines = finished.out.splitlines()
    assert [line for line in lines if line.startswith("batch")] == ["batch = 2", "batch = 5"]
    assert [line.split()[1:3] for line in lines if "total" in line] == [
        ["f32[2,", "3]"],
        ["f32[5,", "3]"],
    ]


def test_as_json_the_answers_are_a_list(command, tmp_path):
    path = models.batched(tmp_path)
    data = command("run", path, "--dim", "batch=2,5", *INTERPRETED, "--json").json
    assert [answer["dims"] for answer in data["bindings"]] == [{"batch": 2}, {"batch": 5}]
    types = [answer["outputs"][0]["type"] for answer in data["bindings"]]
    assert types == ["f32[2, 3]", "f32[5, 3]"]


@pytest.mark.parametrize("verb", ["check", "explain"])
def test_each_extent_is_looked_at(command, tmp_path, verb):
    data = command(verb, models.batched(tmp_path), "--dim", "batch=1,2,2", "--json").json
    assert [answer["dims"] for answer in data["bindings"]] == [{"batch": 1}, {"batch": 2}]


def test_the_worst_status_counts(command, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "afterglow.cli.run.onnxruntime_outputs", lambda path, feed: [feed["a"] + feed["b"]]
    )
    path = models.batched(tmp_path)
    words = ("run", path, "--dim", "batch=1,2", *INTERPRETED, "--compare", "onnxruntime")
    assert command(*words).status == 0
    monkeypatch.setattr(
        "afterglow.cli.run.onnxruntime_outputs",
        lambda path, feed: [feed["a"] + feed["b"] + (len(feed["a"]) == 1)],
    )
    assert command(*words).status == 1


def test_bench_times_each_extent(command, tmp_path):
    words = ("--vs", "", "--seconds", "0.02", "--json")
    data = command("bench", models.batched(tmp_path), "--dim", "batch=1,4", *words).json
    assert [answer["engines"][0]["problem"] for answer in data["bindings"]] == [None, None]


def test_profile_times_each_extent(command, tmp_path):
    words = ("--repeat", "1", "--json")
    data = command("profile", models.batched(tmp_path), "--dim", "batch=1,4", *words).json
    kernels = [answer["steps"][0]["results"] for answer in data["bindings"]]
    assert kernels == [["f32[1, 3]"], ["f32[4, 3]"]]


def test_several_versions_are_saved_together(command, tmp_path):
    saved = tmp_path / "batched.agc"
    finished = command("compile", models.batched(tmp_path), "--dim", "batch=1,4", "-o", str(saved))
    assert finished.status == 0
    assert finished.out.splitlines()[-1] == f"2 versions, written to {saved}"
    heading = next(line.split() for line in finished.out.splitlines() if "batch" in line)
    assert heading == ["batch", "instructions", "arena", "scratch", "weights", "code"]
    loaded = afterglow.load(saved)
    for rows in (4, 1):
        a = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(loaded(a, a), 2 * a)


def test_several_versions_as_json(command, tmp_path):
    path = models.batched(tmp_path)
    data = command("compile", path, "--dim", "batch=1,4", "--json").json
    assert [version["dims"] for version in data["versions"]] == [{"batch": 1}, {"batch": 4}]
    assert [version["memory"]["io_bytes"] for version in data["versions"]] == [36, 144]


def test_a_bundle_has_an_entry_for_each_extent(command, tmp_path):
    folder = tmp_path / "out"
    words = ("--dim", "batch=1,4", "-o", str(folder), "--target", "cortex-m4")
    finished = command("compile", models.batched(tmp_path), *words)
    assert finished.status == 0
    assert "batched_1x3_1x3   batched_4x3_4x3" in finished.out
    described = json.loads((folder / "batched.json").read_text())
    assert described["extents"] == [
        {"name": "batch", "places": [["a", 0], ["b", 0]], "values": [1, 4]}
    ]
    header = (folder / "batched.h").read_text()
    assert "int32_t batched_find(int32_t batch, const batched_entry **entry);" in header


def test_a_range_bounds_what_files_bring(command, tmp_path):
    path = models.batched(tmp_path)
    np.save(tmp_path / "a.npy", np.ones((6, 3), np.float32))
    words = ("run", path, "--input", f"a={tmp_path / 'a.npy'}", *INTERPRETED)
    assert command(*words, "--dim", "batch=1..8").status == 0
    command.fails(
        2,
        """
        error: dimension 'batch' of input 'a' is 6, out of its bounds 1..5
          help: compile with other bounds: dims={'batch': (FIRST, LAST)} or --dim batch=FIRST..LAST
        """,
        *(*words, "--dim", "batch=1..5"),
    )


def test_a_range_is_run_at_its_largest_extent(command, tmp_path):
    data = command("run", models.batched(tmp_path), "--dim", "batch=1..5", "--json").json
    assert [output["type"] for output in data["outputs"]] == ["f32[5, 3]"]


def test_a_range_may_have_a_step(command, tmp_path):
    data = command("run", models.batched(tmp_path), "--dim", "batch=4..16:4", "--json").json
    assert [output["type"] for output in data["outputs"]] == ["f32[16, 3]"]
    command.fails(
        2,
        """
        error: dimension 'batch' cannot be (4, 16, 5): 4 is not a multiple of the step 5
          help: a range is the first and last extent, and a step if extents are multiples of it
        """,
        *("run", models.batched(tmp_path), "--dim", "batch=4..16:5"),
    )


@pytest.mark.parametrize("verb", ["check", "compile", "explain"])
def test_a_program_may_be_for_a_range(command, tmp_path, verb):
    finished = command(verb, models.batched(tmp_path), "--dim", "batch=1..5", "--json")
    assert finished.status == 0
    assert "bindings" not in finished.json


def test_memory_is_shown_for_both_ends_of_a_range(command, tmp_path):
    lines = command("compile", models.batched(tmp_path), "--dim", "batch=1..5").out.splitlines()
    sizes = [line.split()[-1] for line in lines if line.startswith(" inputs and outputs")]
    assert sizes == ["180", "36"]


def test_a_range_that_needs_too_much_memory_is_refused_with_its_bounds(command, tmp_path):
    words = ("compile", models.batched(tmp_path), "--dim", "batch=1..900", "--max-memory", "1KiB")
    assert (
        command(*words)
        .err.strip()
        .endswith(
            "with batch = 900\n"
            "  help: give bounds within which the model works, instead of batch 1..900, "
            "or allow more with max_memory, or --max-memory"
        )
    )


def test_a_dump_shows_a_range(command, tmp_path):
    finished = command("dump", models.batched(tmp_path), "--dim", "batch=1..5")
    assert "f32[batch, 3]" in finished.out


def test_a_range_is_profiled_at_the_extents_of_the_inputs(command, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 3), np.float32))
    words = ("--input", f"a={tmp_path / 'a.npy'}", "--repeat", "1", "--json")
    data = command("profile", models.batched(tmp_path), "--dim", "batch=1..5", *words).json
    assert [step["results"] for step in data["steps"]] == [["f32[3, 3]"]]


def test_what_is_in_the_way_of_a_range_is_named(command, tmp_path):
    path = models.save(
        tmp_path / "two.onnx",
        [models.helper.make_node("Add", ["a", "b"], ["y"], name="sum")],
        [("a", models.FLOAT, ("batch", 3)), ("b", models.FLOAT, ("rows", 3))],
        [("y", models.FLOAT, ("batch", 3))],
    )
    finished = command("compile", path, "--dim", "batch=1..4", "--dim", "rows=1..4")
    assert finished.status == 1
    assert "in node 'sum' (Add of ai.onnx version 17)" in finished.err
    assert "list extents instead, such as --dim batch=4" in finished.err


def test_bench_times_a_range_at_its_largest_extent(command, tmp_path):
    words = ("--vs", "", "--seconds", "0.02", "--json")
    data = command("bench", models.batched(tmp_path), "--dim", "batch=1..4", *words).json
    assert [engine["problem"] for engine in data["engines"]] == [None]


@pytest.mark.parametrize(
    ("purpose", "words"),
    [
        ("a dump", ("dump",)),
        ("a program as text", ("compile", "-o", "program.txt")),
        ("--output-dir", ("run", "--output-dir", "somewhere")),
        ("--memory", ("explain", "--memory", "picture.svg")),
    ],
)
def test_what_is_for_one_shape(command, tmp_path, purpose, words):
    command.fails(
        2,
        f"""
        error: {purpose} is for one shape, but --dim batch=1,2 lists several
          help: give one extent, --dim batch=1
        """,
        *(*words, models.batched(tmp_path), "--dim", "batch=1,2"),
    )


@pytest.mark.parametrize("verb", ["run", "compile", "check"])
def test_too_many_versions(command, tmp_path, verb):
    command.fails(
        2,
        """
        error: 17 versions of the model are requested, the limit is 16
          help: list fewer extents of 'batch'
        """,
        *(verb, models.batched(tmp_path), "--dim", f"batch={','.join(map(str, range(17)))}"),
    )


@pytest.mark.parametrize("wish", ["3", "3,4", "3..4"])
@pytest.mark.parametrize("verb", ["run", "bench", "profile"])
def test_a_dimension_that_no_input_has(command, tmp_path, verb, wish):
    command.fails(
        2,
        "error: no input has a dynamic dimension 'bach': there are 'batch'",
        *(verb, models.batched(tmp_path), "--dim", f"bach={wish}"),
    )


@pytest.mark.parametrize("more", [(), ("-o", "out.agc"), ("-o", "out")])
def test_a_listed_dimension_that_no_input_has(command, tmp_path, more):
    command.fails(
        2,
        "error: no input has a dynamic dimension 'bach': there are 'batch'",
        *("compile", models.batched(tmp_path), "--dim", "bach=3,4", *more),
    )


def test_a_file_that_contradicts_an_extent(command, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((6, 3), np.float32))
    command.fails(
        2,
        "error: dimension 'batch' is 2, but 6 in input 'a'",
        *("run", models.batched(tmp_path), "--input", f"a={tmp_path / 'a.npy'}"),
        *("--dim", "batch=2"),
    )


@pytest.mark.filterwarnings("ignore:dimension 'batch' has several extents")
def test_files_may_bring_several_extents_of_one_name(command, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((1, 3), np.float32))
    np.save(tmp_path / "b.npy", np.ones((4, 3), np.float32))
    finished = command(
        *("run", models.batched(tmp_path), "--input", f"a={tmp_path / 'a.npy'}"),
        *("--input", f"b={tmp_path / 'b.npy'}"),
    )
    assert finished.status == 0


def test_what_is_bound_is_not_asked_for_again(command, tmp_path):
    path = models.save(
        tmp_path / "two.onnx",
        [models.helper.make_node("Relu", ["x"], ["y"])],
        [("x", models.FLOAT, ("batch", "seq", 8))],
        [("y", models.FLOAT, ("batch", "seq", 8))],
    )
    command.fails(
        2,
        """
        error: input 'x: f32[4, seq, 8]' has dynamic dimensions
          help: bind them, for example --dim seq=1 or --shapes x:4x1x8
        """,
        *("run", path, "--dim", "batch=4"),
    )
    finished = command("run", path, "--dim", "batch=4,2", "--dim", "seq=3,5", "--json")
    bound = [tuple(answer["dims"].values()) for answer in finished.json["bindings"]]
    assert bound == [(4, 3), (4, 5), (2, 3), (2, 5)]
