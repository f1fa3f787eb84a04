from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import install, run
from benchmarks.machine import Others, processor
from benchmarks.results import Machine, Results, load
from tests.benchmarks.stored import MACHINE, results, row

NET = Path("net.onnx")


def test_only_what_is_missing_is_measured():
    stored = results(row("net", afterglow=0.01, onnxruntime=0.02))
    task = run.Task(NET, 1, ("onnxruntime", "ncnn"), 3.0)
    assert run.left(task, stored).peers == ("ncnn",)
    assert run.left(run.Task(NET, 1, ("onnxruntime",), 3.0), stored) is None
    assert run.left(run.Task(NET, 2, ("onnxruntime",), 3.0), stored).threads == 2


def test_the_tasks():
    options = {"threads": "1,2", "peers": "mnn,ncnn", "seconds": 3.0}
    batches = {"batches": "1,8", "batch_models": "net", "batch_seconds": 1.0}
    made = list(run.tasks([NET, Path("other.onnx")], {**options, **batches}))
    whole = [task for task in made if not task.batch]
    assert [task.place for task in whole] == [
        *(("net", count, 0) for count in (1, 2)),
        *(("other", count, 0) for count in (1, 2)),
    ]
    assert whole[0].peers == ("mnn", "ncnn")
    assert [task.place for task in made[4:]] == [
        *(("net", 1, batch) for batch in (1, 8)),
        *(("net", 2, batch) for batch in (1, 8)),
    ]


def test_each_result_is_kept_at_once(tmp_path, monkeypatch, capsys):
    file, stored = tmp_path / "results.json", Results(MACHINE)
    answers = [row("net", afterglow=0.01, mnn=0.02), "it does not compile"]
    monkeypatch.setattr(run, "measured", lambda *words: answers.pop(0))
    wanted = [run.Task(NET, 1, ("mnn",), 1.0), run.Task(NET, 2, ("mnn",), 1.0)]
    run.measure_all(wanted, stored, file, "python", tmp_path)
    assert [row.place for row in load(file).rows] == [("net", 1, 0)]
    said = capsys.readouterr().err
    assert "net, 1 thread: 0.50 of mnn" in said
    assert "net, 2 threads: it does not compile" in said


def test_a_batch_must_be_as_many_times_the_work(tmp_path, monkeypatch, capsys):
    stored = results(row("net", afterglow=0.01, mnn=0.02, flops=100.0))
    for flops, kept in ((400.0, 2), (150.0, 2)):
        answer = row("net", batch=4, flops=flops, afterglow=0.01, mnn=0.02)
        monkeypatch.setattr(run, "measured", lambda *words, answer=answer: answer)
        task = run.Task(NET, 1, ("mnn", str(flops)), 1.0, batch=4)
        run.measure_all([task], stored, tmp_path / "results.json", "python", tmp_path)
        assert len(stored.rows) == kept
    assert "batch 4: its operations do not grow as the items do" in capsys.readouterr().err


def test_results_of_another_machine_are_not_mixed_in(tmp_path):
    file = tmp_path / "results.json"
    results(row("net", afterglow=0.01)).save(file)
    done = CliRunner().invoke(run.main, ["--results", str(file)])
    assert done.exit_code == 1
    assert "was measured on another machine, Slide rule; say --anew" in done.output


def test_others_use_a_share_of_the_machine():
    assert 0.0 <= Others().share() <= 1.0
    assert processor()


def test_every_engine_has_versions():
    pinned = {line.split("==")[0] for line in install.VERSIONS.read_text().splitlines()}
    asked = {
        word
        for peer in run.PEERS
        for words in install.pip_words(peer)
        for word in words
        if word not in ("install", "--no-deps", "onnx")
    }
    assert asked == pinned


def test_an_engine_that_nobody_knows():
    done = CliRunner().invoke(install.main, ["onnxruntime,fast"])
    assert done.exit_code == 1
    assert "no engine 'fast'; there are onnxruntime, openvino" in done.output


def test_what_is_there_is_not_installed(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(install, "install", lambda peer: pytest.fail("it is there"))
    assert CliRunner().invoke(install.main, ["onnxruntime"]).exit_code == 0


def test_what_cannot_be_installed_is_passed_over(monkeypatch):
    monkeypatch.setattr(install, "is_installed", lambda peer: False)
    monkeypatch.setattr(install, "install", lambda peer: False)
    done = CliRunner().invoke(install.main, ["mnn,tvm"])
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "mnn cannot be installed, and will be missing",
        "tvm cannot be installed, and will be missing",
    ]


def test_from_the_model_to_the_page(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    here = Machine(processor(), 2, "today", 100.0, 1 << 20, {"1": 50.0}, {"1": 10.0})
    monkeypatch.setattr(run, "measure_machine", lambda counts: here)
    file = tmp_path / "results.json"
    words = ["--threads", "1", "--seconds", "0.05", "--vs", "onnxruntime"]
    words += ["--results", str(file), "--page", str(tmp_path)]
    done = CliRunner().invoke(run.main, words)
    assert done.exit_code == 0, done.output
    assert "| model | afterglow | onnxruntime | ratio to the best |" in done.output
    rows = json.loads(file.read_text())["rows"]
    assert [(r["model"], r["threads"], r["flops"]) for r in rows] == [("digits", 1, 168448)]
    assert rows[0]["weight_bytes"] > 4 * 1000
    assert rows[0]["io_bytes"] == 4 * (64 + 10)
    assert (tmp_path / "images" / "roofline.svg").exists()
