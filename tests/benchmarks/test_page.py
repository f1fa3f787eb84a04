from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.floor import floor
from benchmarks.page import BEGIN, DOCS, END, PAGE, main, tables, write_page
from benchmarks.results import DEFAULT, load
from tests.benchmarks.stored import MACHINE, engine, results, row


@pytest.fixture
def stored():
    failed = engine(None, problem="cannot convert: no layer | Loop")
    return results(
        row("net", afterglow=engine(0.02, arena_bytes=250_000), onnxruntime=0.04),
        row("net", afterglow=0.02, iree=engine(0.1, note="O2", relative_error=2e-6), tvm=failed),
        row("net", threads=2, afterglow=0.02, onnxruntime=0.016),
        row("net", batch=1, afterglow=0.02, onnxruntime=0.04),
        row("net", batch=8, afterglow=0.08, onnxruntime=0.4),
    )


def lines(text, beginning):
    return [line for line in text.splitlines() if line.startswith(beginning)]


def test_the_tables(stored):
    text = tables(stored)
    assert "Slide rule, 2 cores, peak of 100 GFLOP/s per core" in text
    assert "afterglow 1.2, onnxruntime 1.2, iree 1.2" in text
    assert "50 and 80 GB/s from the last-level cache" in text
    assert "Geometric mean of the ratios: **0.50**; the largest: 0.50." in text
    assert "| net | 20 | **40** | 100 | – | **0.50** |" in text  # noqa: RUF001
    assert "| net | 20 | **16** | **1.25** |" in text
    assert "| net | – | 100 + 20 + 3 | 5 | 0.25 | – | 100 + 20 + 3 | 5 |" in text  # noqa: RUF001
    assert "| net | – | ref | 2e-06 | – |" in text  # noqa: RUF001
    assert "Compiled with: iree: O2." in text
    assert lines(text, "| tvm |") == ["| tvm | net | cannot convert: no layer \\| Loop |"]


def test_what_is_not_installed_says_what_to_type():
    words = "/a/python -m pip install ncnn && /a/python -m pip x"
    missing = engine(None, problem="ncnn is not installed", help=words)
    text = tables(results(row("net", afterglow=0.02, ncnn=missing)))
    assert lines(text, "| ncnn |") == [
        "| ncnn | net | ncnn is not installed: pip install ncnn && pip x |"
    ]


def test_time_for_each_item(stored):
    text = tables(stored)
    assert "| net | 1 | afterglow | 20 | 10 (0.50) |" in text
    assert "| net | 1 | onnxruntime | 40 | 50 (1.25) |" in text


def test_what_is_not_right_has_a_mark():
    text = tables(results(row("net", afterglow=0.02, mnn=engine(0.01, relative_error=0.5))))
    assert "| net | 20 | 10! | – |" in text  # noqa: RUF001
    assert "No other engine was timed." in text


def test_a_busy_machine_is_said():
    quiet, busy = row("net", afterglow=0.02), row("net", afterglow=0.02)
    object.__setattr__(busy, "others", 0.4)
    assert "a first look" not in tables(results(quiet))
    assert "used 40% of the machine (median), at most 40%. These" in tables(results(busy))


def test_the_floor_is_arithmetic_or_memory_or_cache():
    assert floor(row("net", flops=2e9), MACHINE) == (0.02, "arithmetic")
    seconds, bound = floor(row("net", threads=2, flops=1e6), MACHINE)
    assert (seconds, bound) == (pytest.approx(41e6 / 16e9), "memory")
    small = row("net", flops=1e6)
    object.__setattr__(small, "weight_bytes", 1_000_000)
    assert floor(small, MACHINE) == (pytest.approx(2e6 / 50e9), "cache")


def test_the_line_of_the_floor(stored):
    assert "| net | 1 | 41 | 9 | 20.0 | 50 | 50 | 10 | arithmetic | 2.00 |" in tables(stored)


def test_the_page_keeps_its_own_words(stored, tmp_path):
    write_page(stored, tmp_path)
    ours, theirs = ((folder / PAGE).read_text() for folder in (DOCS, tmp_path))
    assert theirs.split(BEGIN)[0] == ours.split(BEGIN)[0]
    assert theirs.split(END)[1] == ours.split(END)[1]
    assert theirs.split(BEGIN)[1].split(END)[0].strip() == tables(stored)
    for name in ("engines.svg", "performance.svg", "roofline.svg"):
        assert (tmp_path / "images" / name).read_text().startswith("<svg")
        assert f"images/{name}" in ours


def test_our_page_shows_what_is_stored(tmp_path):
    write_page(load(DEFAULT), tmp_path)
    rewrite = "run: python -m benchmarks.page"
    for name in (PAGE, "images/engines.svg", "images/performance.svg", "images/roofline.svg"):
        assert (DOCS / name).read_text() == (tmp_path / name).read_text(), rewrite


def test_the_page_is_made_without_measuring(stored, tmp_path):
    file = tmp_path / "results.json"
    stored.save(file)
    done = CliRunner().invoke(main, ["--results", str(file), "--page", str(tmp_path)])
    assert done.exit_code == 0
    assert "| net | 20 |" in (tmp_path / PAGE).read_text()
    done = CliRunner().invoke(main, ["--results", str(tmp_path / "none"), "--page", str(tmp_path)])
    assert done.exit_code == 1
    assert "has no results" in done.output
