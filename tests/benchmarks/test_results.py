from __future__ import annotations

import pytest

from benchmarks.results import load
from tests.benchmarks.stored import engine, results, row


def test_what_is_saved_is_loaded(tmp_path):
    stored = results(
        row("net", afterglow=engine(0.01, note=None), mnn=0.0200000001),
        row("net", batch=4, afterglow=0.04, mnn=engine(None, problem="it fell over")),
    )
    file = tmp_path / "deep" / "results.json"
    stored.save(file)
    loaded = load(file)
    assert loaded.machine == stored.machine
    assert [row.place for row in loaded.rows] == [("net", 1, 0), ("net", 1, 4)]
    assert loaded.rows[0].engines["mnn"]["min_seconds"] == 0.02
    assert "note" not in loaded.rows[0].ours
    assert len(file.read_text().splitlines()) == 5


def test_there_may_be_no_file(tmp_path):
    assert load(tmp_path / "results.json") is None


def test_the_fastest_engine_of_all_rows_counts_against_our_time_in_its_own_row():
    stored = results(
        row("net", afterglow=0.010, mnn=0.020, openvino=0.016),
        row("net", afterglow=0.012, ncnn=0.015),
    )
    (case,) = stored.cases()
    assert case.best == (pytest.approx(0.8), "ncnn")
    assert case.row is stored.rows[1]
    assert set(case.engines) == {"afterglow", "mnn", "openvino", "ncnn"}
    assert case.engines["afterglow"]["min_seconds"] == 0.012


def test_an_engine_with_other_outputs_is_no_peer():
    (case,) = results(
        row("net", afterglow=0.010, mnn=engine(0.001, relative_error=0.9), openvino=0.02)
    ).cases()
    assert case.best == (0.5, "openvino")
    (alone,) = results(row("net", afterglow=0.010, mnn=engine(None, problem="x"))).cases()
    assert alone.best is None
    assert alone.row is alone.rows[0]


def test_a_new_row_replaces_what_it_measures_anew():
    stored = results(row("net", afterglow=0.01, mnn=0.02, openvino=0.03))
    stored.add(row("net", afterglow=0.011, openvino=0.031))
    stored.add(row("net", threads=2, afterglow=0.005, openvino=0.02))
    assert [set(row.engines) for row in stored.rows] == [
        {"afterglow", "mnn"},
        {"afterglow", "openvino"},
        {"afterglow", "openvino"},
    ]
    stored.add(row("net", afterglow=0.011, mnn=0.021))
    assert [row.peers for row in stored.rows] == [["openvino"], ["openvino"], ["mnn"]]


def test_what_is_missing_can_be_installed_and_tried_again():
    missing = engine(None, problem="MNN is not installed", help="pip install MNN")
    failed = engine(None, problem="cannot convert: Loop")
    stored = results(row("net", afterglow=0.01, mnn=missing, tvm=failed))
    assert stored.known(("net", 1, 0)) == {"afterglow", "tvm"}
    assert stored.known(("net", 2, 0)) == set()
