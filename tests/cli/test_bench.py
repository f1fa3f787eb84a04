from __future__ import annotations

import importlib.util

import pytest

from afterglow.cli import bench
from afterglow.cli.bench import _peers, _show
from afterglow.cli.session import Session
from afterglow.report.bench import PEERS, Measurement
from tests.cli import models
from tests.cli.test_explain import DIGITS

QUICK = ("--seconds", "0.05")


def test_two_engines_and_one_that_is_missing(command):
    if importlib.util.find_spec("MNN") is not None:
        pytest.skip("MNN is installed")
    finished = command("bench", str(DIGITS), "--vs", "onnxruntime,mnn", "--json", *QUICK)
    assert finished.status == 0
    assert finished.json["flops"] == 168448
    ours, peer, missing = finished.json["engines"]
    assert [ours["engine"], peer["engine"]] == ["afterglow", "onnxruntime"]
    for row in (ours, peer):
        assert row["problem"] is None
        assert 0 < row["min_seconds"] <= row["p50_seconds"] <= row["p99_seconds"]
        assert row["calls"] >= 15
        assert row["peak_bytes"] > 0
    assert ours["relative_error"] < 1e-5
    assert ours["compile_seconds"] > 0
    assert ours["arena_bytes"] == 5376
    assert peer["relative_error"] is None
    assert missing["problem"] == "MNN is not installed"
    assert missing["help"].endswith("-m pip install MNN")


def test_our_package_compiles_as_asked(command):
    options = ("--max-arena", "4KiB", "--exact", "--precision", "weights_bf16")
    finished = command("bench", str(DIGITS), "--vs", "", "--json", *options, *QUICK)
    (ours,) = finished.json["engines"]
    assert ours["problem"] is None
    assert ours["arena_bytes"] <= 4096


def test_the_answer_as_tables(capsys):
    found = [
        Measurement("afterglow", 1, "1.0", 0.1, 0.2, 0.03, 0.004, [0.001, 0.003], 5_000_000, 64),
        Measurement("onnxruntime", 1, "2.0", 0.1, None, 0.03, 0.004, [0.002], 9_000_000),
        Measurement("mnn", 1, problem="MNN is not installed", help="pip install MNN"),
    ]
    _show(Session(), found, flops=3e6)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "afterglow 1.0 1.0 ms 2.0 ms 2.0 ms 2.8 ms 3.0 ms 2 – 3.0 –" in lines  # noqa: RUF001
    assert "afterglow 200.0 ms 100.0 ms 30.0 ms 4.0 ms 5.0 MB 64 B" in lines
    assert lines[-2:] == [
        "mnn: MNN is not installed; try pip install MNN",
        "0.50 times the time of onnxruntime, the fastest other engine",
    ]


def test_an_engine_that_nobody_knows(command):
    command.fails(
        2,
        """
        error: unknown engine 'fast'
          help: choose from onnxruntime, openvino, mnn, ncnn, torch, inductor, jax, tvm, iree
        """,
        *("bench", str(DIGITS), "--vs", "fast"),
    )


def test_a_python_that_is_not_there(command):
    command.fails(
        2,
        """
        error: --peer-python: no such program: '/nowhere/python'
          help: give the path of a Python interpreter that has the other engines installed
        """,
        *("bench", str(DIGITS), "--peer-python", "/nowhere/python"),
    )


def test_all_engines():
    assert _peers("all") == PEERS
    assert _peers(" mnn,,mnn ") == ("mnn",)


def test_two_threads_and_a_folder_to_keep_things_in(command, tmp_path):
    words = ("--threads", "2", "--json", *QUICK, "--keep", str(tmp_path))
    finished = command("bench", str(DIGITS), *words)
    assert finished.status == 0
    ours, _ = finished.json["engines"]
    assert ours["min_seconds"] <= ours["p50_seconds"] <= ours["p90_seconds"] <= ours["p99_seconds"]
    for part in ("import", "compile", "load", "first"):
        assert ours[f"{part}_seconds"] > 0
    assert ours["threads"] == 2
    assert (tmp_path / "digits" / "afterglow").is_dir()


def test_free_dimensions_must_be_bound(command, tmp_path):
    command.fails(
        2,
        """
        error: input 'a: f32[batch, 3]' has dynamic dimensions
          help: bind them, for example --dim batch=1 or --shapes a:1x3
        """,
        *("bench", models.batched(tmp_path)),
    )


def test_maps_and_sequences_are_compared(command, tmp_path):
    for model in (models.zipped(tmp_path), models.parts(tmp_path)):
        finished = command("bench", model, "--seconds", "0.01", "--json")
        assert finished.status == 0
        ours, theirs = finished.json["engines"]
        assert not ours["problem"]
        assert not theirs["problem"]
        assert ours["relative_error"] < 1e-5


def test_a_model_that_does_not_run_is_no_success(command, tmp_path, monkeypatch):
    failed = Measurement("afterglow", 1, problem="it broke")
    monkeypatch.setattr(bench, "compare", lambda *_: [failed])
    finished = command("bench", models.linear(tmp_path), "--vs", "")
    assert finished.status == 1
    assert "afterglow: it broke" in finished.out


def test_a_result_is_saved_and_compared_with(command, tmp_path):
    path = tmp_path / "before.json"
    assert command("bench", str(DIGITS), "--vs", "", "--save", str(path), *QUICK).status == 0
    options = ("--against", str(path), "--fail-above", "100000", "--warmup", "0.02")
    finished = command("bench", str(DIGITS), "--vs", "", "--json", *options, *QUICK)
    assert finished.status == 0
    assert {"percent", "low", "high", "is_noise", "verdict"} == {*finished.json["against"]}


def test_a_result_of_another_machine_is_warned_about(command, tmp_path):
    path = tmp_path / "before.json"
    command("bench", str(DIGITS), "--vs", "", "--save", str(path), *QUICK)
    path.write_text(path.read_text().replace('"processor": "', '"processor": "other '))
    finished = command("bench", str(DIGITS), "--vs", "", "--against", str(path), *QUICK)
    assert "the machine of the saved result was" in finished.err
    assert "against the saved result:" in finished.out


def test_several_clients_call_at_once(command):
    options = ("--vs", "onnxruntime", "--clients", "2", "--json")
    finished = command("bench", str(DIGITS), *options, *QUICK)
    for row in finished.json["engines"]:
        assert row["problem"] is None
        assert row["clients"] == 2
        assert row["calls_per_second"] > 0


def test_batches_need_a_dynamic_dimension(command):
    finished = command("bench", str(DIGITS), "--batch", "1,2")
    assert finished.status == 2
    assert "--batch needs an input whose first dimension is dynamic" in finished.err


def test_a_limit_needs_something_to_compare_with(command):
    finished = command("bench", str(DIGITS), "--fail-above", "5")
    assert finished.status == 2
    assert "--fail-above needs a result to compare with" in finished.err


def test_streams_are_compared_with_one_that_has_all_threads(command):
    words = ("--streams", "2", "--threads", "2", "--json")
    finished = command("bench", str(DIGITS), *words, *QUICK)
    assert finished.status == 0
    one, two = finished.json["streams"]
    assert (one["streams"], one["threads"]) == (1, 2)
    assert (two["streams"], two["threads"]) == (2, 1)
    for row in (one, two):
        assert row["problem"] is None
        assert row["calls_per_second"] > 0
        assert row["p50_seconds"] <= row["p99_seconds"]
    assert finished.json["best"] in (1, 2)


def test_streams_have_no_peers_and_are_numbers(command):
    finished = command("bench", str(DIGITS), "--streams", "2", "--vs", "onnxruntime")
    assert finished.status == 2
    assert "--vs cannot be given with --streams" in finished.err
    finished = command("bench", str(DIGITS), "--streams", "0")
    assert finished.status == 2
    assert "'0' are no numbers of streams" in finished.err
