"""The grid for many cores: models without weights, cores in order, tables, a small run."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from benchmarks.many_cores.clock import Clock
from benchmarks.many_cores.cores import Cores, SpeedWatch, chosen_order
from benchmarks.many_cores.elf import without_other_tables
from benchmarks.many_cores.grid import STEADY, TRIES, Cell, steady_turn
from benchmarks.many_cores.skeletons import describe, draw, write_model, write_skeleton
from benchmarks.many_cores.steps import step_rows
from benchmarks.many_cores.table import model_lines, summary

ROOT = Path(__file__).parents[2]


def test_a_skeleton_is_small_and_its_model_has_weights_alike(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = random.normal(0.5, 2.0, (64, 8, 3, 3)).astype(np.float32)
    bias = random.normal(size=64).astype(np.float32)
    tensors = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")]
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"])
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 8, 9, 9]) for n in "xy")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], tensors))
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "s").mkdir()
    write_skeleton(tmp_path / "m.onnx", tmp_path / "s")
    assert (tmp_path / "s" / "m.onnx").stat().st_size < 1000
    write_model(tmp_path / "s" / "m.onnx", tmp_path / "again.onnx")
    made = {
        t.name: numpy_helper.to_array(t)
        for t in onnx.load(tmp_path / "again.onnx").graph.initializer
    }
    np.testing.assert_array_equal(made["b"], bias)
    np.testing.assert_allclose(made["w"].mean((1, 2, 3)), weights.mean((1, 2, 3)), atol=0.2)
    np.testing.assert_allclose(made["w"].std((1, 2, 3)), weights.std((1, 2, 3)), rtol=0.1)


def test_drawn_bytes_stay_within_their_limits_and_are_the_same_each_time() -> None:
    weights = np.random.default_rng(0).integers(-64, 64, (16, 400)).astype(np.int8)
    drawn = draw(describe(weights), weights.shape, weights.dtype, "w")
    assert drawn.dtype == np.int8
    assert drawn.min() >= -64
    assert drawn.max() < 64
    np.testing.assert_array_equal(drawn, draw(describe(weights), weights.shape, weights.dtype, "w"))


def test_fast_cores_come_first_and_second_threads_of_a_core_last() -> None:
    rates = {0: 10.0, 1: 20.0, 2: 10.5, 3: 20.5}
    assert chosen_order(rates, {0: {0, 2}, 1: {1, 3}, 2: {0, 2}, 3: {1, 3}}) == (1, 0, 3, 2)
    assert chosen_order(rates, {core: {core} for core in rates}) == (3, 1, 2, 0)


def test_tables_of_other_processors_are_blanked_and_nothing_else() -> None:
    library = _library({"_ZN4llvm6X86TabE": b"x" * 300, "_ZN4llvm8AMDGPUTabE": b"a" * 300})
    made = without_other_tables(library)
    assert len(made) == len(library)
    assert b"x" * 300 in made
    assert b"aa" not in made


def _library(tables: dict[str, bytes]) -> bytes:
    """A file with a table for each symbol, and no more than is read of it."""
    constants, texts, symbols = b"", b"\0", b""
    for name, table in tables.items():
        symbols += struct.pack("<IBBHQQ", len(texts), 1, 0, 1, 0x1000 + len(constants), len(table))
        constants, texts = constants + table, texts + name.encode() + b"\0"
    names = b"\0.rodata\0.strtab\0.symtab\0.shstrtab\0"
    parts = [constants, texts, symbols, names]
    offset, body = 64, b""
    headers = [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for part, name in zip(parts, (1, 9, 17, 25), strict=True):
        address = 0x1000 if part is constants else 0
        place = offset + len(body)
        headers.append(
            struct.pack("<IIQQQQIIQQ", name, 1, 0, address, place, len(part), 0, 0, 1, 0)
        )
        body += part
    start = struct.pack("<40xQ12xHH", offset + len(body), len(headers), 4)
    return start + body + b"".join(headers)


def test_the_table_has_ratios_to_the_best_other_engine_and_their_means() -> None:
    cells = [
        Cell("net", "onnxruntime", 1, [0], [[0.004, 0.005]]),
        Cell("net", "openvino", 1, [0], [[0.002]]),
        Cell("net", "afterglow", 1, [0], [[0.001]], digest="a"),
        Cell("net_int8", "openvino", 1, [0], [[0.002]]),
        Cell("net_int8", "afterglow", 1, [0], [[0.003]]),
    ]
    assert list(summary(cells)) == [
        "time / best other        t1",
        "net                    0.50",
        "net_int8               1.50",
        "mean of floats         0.50",
        "mean of int8           1.50",
        "slowest turn / fastest: middle 1.00, most 1.00; 0 turns repeated, 0 on slow cores",
    ]
    assert list(model_lines(cells[:3])) == [
        "net                  t1   onnxruntime 4.000  openvino 2.000  afterglow 1.000"
        "  0.50 (0.50 to 0.50)"
    ]


def test_the_span_of_a_ratio_and_turns_on_slow_cores_are_said() -> None:
    cells = [
        Cell("net", "openvino", 1, [0], [[0.002], [0.004]], speeds=[1.0, 0.5]),
        Cell("net", "afterglow", 1, [0], [[0.001], [0.0012]], speeds=[1.0, 0.9], repeated=2),
    ]
    (line,) = model_lines(cells)
    assert line.endswith("afterglow 1.000  0.50 (0.30 to 0.50, 1 slow turns)")
    assert list(summary(cells))[-1] == (
        "slowest turn / fastest: middle 2.00, most 2.00; 2 turns repeated, 1 on slow cores"
    )
    assert cells[0].data()["turns_ms"] == [2.0, 4.0]


def test_cores_that_are_fast_now_come_first() -> None:
    now = {0: 50.0, 1: 100.0, 2: 90.0}

    def spin(cores: Sequence[int], _: float) -> list[float]:
        return [now[core] for core in cores]

    before = Cores((0, 1, 2), dict.fromkeys(now, 100.0), dict.fromkeys(now, 90.0), spin)
    assert before.first(2) == [0, 1]
    assert before.again().first(2) == [1, 2]


def test_speed_is_relative_to_the_best_that_the_same_cores_had() -> None:
    rates = iter([[100.0, 80.0], [90.0, 80.0], [100.0, 40.0], [50.0]])
    watch = SpeedWatch(lambda cores, seconds: next(rates))
    assert [watch.speed([0, 1]) for _ in range(3)] == [1.0, 0.9, 0.5]
    assert watch.speed([0]) == 1.0


def test_a_turn_whose_cores_slow_down_is_run_again() -> None:
    speeds, times = iter([1.0, 0.5, 0.5, 1.0, 0.95]), iter([[9.0], [1.0]])
    assert steady_turn(lambda: next(times), lambda: next(speeds), Clock(60.0)) == [
        (0.5, [9.0]),
        (0.95, [1.0]),
    ]


def test_cores_that_stay_slow_are_waited_for_only_so_often() -> None:
    looks: list[float] = []

    def speed() -> float:
        looks.append(STEADY / 2)
        return looks[-1]

    assert steady_turn(lambda: [1.0], speed, Clock(60.0)) == [(STEADY / 2, [1.0])]
    assert len(looks) == TRIES + 1


def test_bits_that_depend_on_threads_and_engines_that_fail_are_said() -> None:
    cells = [
        Cell("net", "afterglow", 1, [0], [[0.001]], digest="a"),
        Cell("net", "afterglow", 2, [0, 1], [[0.001]], digest="b"),
        Cell("net", "openvino", 2, [0, 1], problem="no answer within 3 s"),
    ]
    assert list(model_lines(cells))[-2:] == [
        "net: THE BITS DEPEND ON THE NUMBER OF THREADS",
        "net t2 openvino: no answer within 3 s",
    ]


def test_steps_that_lose_most_come_first() -> None:
    def step(plan: str, seconds: float) -> dict[str, object]:
        return {"kernel": "k", "plan": plan, "seconds": seconds}

    few = {("a",): step("direct", 4e-6), ("b",): step("strassen", 8e-6)}
    many = {("a",): step("direct", 1e-6), ("b",): step("direct", 6e-6)}
    first, second = step_rows(few, many, 4)
    assert first["nodes"] == ["b"]
    assert first["algorithm"] == {"one": "strassen", "many": "direct"}
    assert second["efficiency"] == pytest.approx(1.0)


def test_a_clock_that_is_over_leaves_next_to_no_time() -> None:
    assert Clock(0.0).is_over
    assert Clock(0.0).at_most(60.0) == pytest.approx(0.1)
    assert not Clock(60.0).is_over
    assert Clock(60.0).at_most(5.0) == 5.0


@pytest.mark.slow
def test_a_small_run_writes_a_line_for_every_cell(tmp_path: Path) -> None:
    words = ["--packed", "none", "--threads", "1", "--rounds", "1", "--seconds", "0.05"]
    words += ["--engines", "onnxruntime,afterglow", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.many_cores", "run", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "many_cores.jsonl").read_text().splitlines()]
    assert [line.get("engine") for line in lines] == [None, "onnxruntime", "afterglow"]
    assert "mean of floats" in done.stdout
