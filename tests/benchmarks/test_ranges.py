from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner

import afterglow as ag
from benchmarks import ranges
from benchmarks.ranges import Range, Server, draw_inputs, take_turns

TEXT = """
    <ir_version: 8, opset_import: ["": 17]>
    net (float[batch, 8] x, int64[batch] type_ids) => (float[batch, 8] y) {
        y = Relu(x)
    }
"""


@pytest.mark.parametrize(
    ("text", "bounds"),
    [("seq=1..512", (1, 512)), ("height=32..640:32", (32, 640, 32)), ("batch=4", 4)],
)
def test_a_range_is_written_as_on_the_command_line(text, bounds):
    given = Range.parse(text)
    assert given.bounds == bounds
    for seed in range(20):
        extent = given.draw(np.random.default_rng(seed))
        assert given.low <= extent <= given.high
        assert extent % given.step == 0


def test_requests_and_samples_need_one_look_at_the_inputs(tmp_path, monkeypatch):
    runner, path, compiled = CliRunner(), tmp_path / "net.onnx", []
    onnx.save(onnx.parser.parse_model(TEXT), path)
    compile_as_before = ag.compile

    def compile_and_note(*args, **options):
        compiled.append(options.get("dims"))
        return compile_as_before(*args, **options)

    monkeypatch.setattr(ranges.ag, "compile", compile_and_note)
    monkeypatch.setattr(ranges, "ROUNDS", 3)
    words = [str(path), "--dim", "batch=1..4", "--samples", "1", "--requests", "3"]
    finished = runner.invoke(ranges.main, words, catch_exceptions=False)
    assert compiled.count(None) == 2  # for the inputs, and to serve requests without bounds
    assert "geometric mean" in finished.output
    assert finished.output.splitlines()[-1].startswith("3 requests: ")


def test_engines_take_turns_and_begin_with_nothing():
    seen = []

    def engine(name):
        seen.append(f"{name} starts")
        return lambda feed: seen.append(f"{name} {feed['x']}")

    servers = [Server(lambda: engine("one")), Server(lambda: engine("two"))]
    take_turns(servers, ({"x": x} for x in range(3)), block=2)
    assert seen == [
        *("one starts", "one 0", "one 1", "two starts", "two 0", "two 1"),
        *("one 2", "two 2"),
    ]
    assert all(server.seconds > 0 for server in servers)


def test_inputs_are_drawn_by_what_their_names_say():
    model = ag.compile(onnx.parser.parse_model(TEXT), cache=False)
    feed = draw_inputs(model.inputs, {"batch": 3}, np.random.default_rng(0))
    assert feed["x"].shape == (3, 8)
    assert feed["type_ids"].tolist() == [0, 0, 0]
