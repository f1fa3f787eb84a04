"""Loops whose carried values grow, as the cache of a decoder does, are ops with one body."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.driver import bodies
from afterglow.frontends.base import NeedsValuesError
from afterglow.graph import Module
from afterglow.ops.control import Loop
from afterglow.types.extent import Dim, ranged
from tests.frontends.models import info, model, node

INT64, BOOL = onnx.TensorProto.INT64, onnx.TensorProto.BOOL
WORDS, WIDTH, HEADS, MOST = 19, 8, 2, 12
LENGTHS = (1, 2, 5, 9)


def greedy_decoder(*, eos: int = 15) -> onnx.ModelProto:
    """A prompt is read at once, then tokens are chosen until one ends it; keys are appended."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    constants: dict[str, object] = {
        "table": 3 * weight(WORDS, WIDTH),
        **{f"w{letter}": weight(WIDTH, WIDTH) for letter in "qkvo"},
        "head": weight(WIDTH, WORDS),
        "split": np.array([0, 0, HEADS, WIDTH // HEADS]),
        "merge": np.array([0, 0, WIDTH]),
        "scale": np.float32((WIDTH / HEADS) ** -0.5),
        "eos": np.array([[eos]]),
        "last": np.array([-1]),
        "most": np.array(MOST),
        "true": np.array(True),
        "zero": np.array([0]),
        "two": np.array([2]),
        "none": np.array([], np.int64),
    }
    nodes = [
        node("Gather", ["table", "prompt"], ["x0"]),
        *projected("x0", "0"),
        node("Slice", ["k0", "zero", "last", "two"], ["keys"]),
        node("Slice", ["v0", "zero", "last", "two"], ["values"]),
        node("Gather", ["prompt", "last"], ["first"], axis=1),
        node(
            "Loop",
            ["most", "true", "first", "keys", "values"],
            ["end", "all_keys", "all_values", "tokens"],
            name="decode",
            body=step(),
        ),
    ]
    inputs, outputs = [info("prompt", (1, "s"), INT64)], [info("tokens", ("n",), INT64)]
    return model(nodes, inputs=inputs, outputs=outputs, constants=constants)


def projected(x: str, suffix: str) -> list[onnx.NodeProto]:
    """Queries, keys and values of each head."""
    return [
        made
        for letter in "qkv"
        for made in (
            node("MatMul", [x, f"w{letter}"], [f"p{letter}{suffix}"]),
            node("Reshape", [f"p{letter}{suffix}", "split"], [f"r{letter}{suffix}"]),
            node("Transpose", [f"r{letter}{suffix}"], [f"{letter}{suffix}"], perm=[0, 2, 1, 3]),
        )
    ]


def step() -> onnx.GraphProto:
    """Attention of one token over all before it, and the choice of the next one."""
    nodes = [
        node("Gather", ["table", "token"], ["x"]),
        *projected("x", ""),
        node("Concat", ["keys_in", "k"], ["keys_out"], axis=2),
        node("Concat", ["values_in", "v"], ["values_out"], axis=2),
        node("Transpose", ["keys_out"], ["turned"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "turned"], ["scores"]),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["shares"], axis=-1),
        node("MatMul", ["shares", "values_out"], ["mixed"]),
        node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "merge"], ["merged"]),
        node("MatMul", ["merged", "wo"], ["attended"]),
        node("Add", ["x", "attended"], ["y"]),
        node("MatMul", ["y", "head"], ["logits"]),
        node("ArgMax", ["logits"], ["next"], axis=-1, keepdims=0),
        node("Equal", ["next", "eos"], ["is_end"]),
        node("Reshape", ["is_end", "none"], ["ended"]),
        node("Not", ["ended"], ["goes_on"]),
        node("Reshape", ["next", "none"], ["chosen"]),
    ]
    kept = [1, HEADS, None, WIDTH // HEADS]
    inputs = [
        info("i", (), INT64),
        info("on", (), BOOL),
        info("token", (1, 1), INT64),
        info("keys_in", kept),
        info("values_in", kept),
    ]
    outputs = [
        info("goes_on", (), BOOL),
        info("next", (1, 1), INT64),
        info("keys_out", kept),
        info("values_out", kept),
        info("chosen", (), INT64),
    ]
    return onnx.helper.make_graph(nodes, "step", inputs, outputs)


def prompts(lengths: Sequence[int]) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.integers(0, WORDS, (1, length)) for length in lengths]


@pytest.mark.parametrize("options", [{}, {"backend": "interpreter"}, {"optimize": False}])
def test_a_greedy_decoder_is_one_program_for_all_prompts(options: dict[str, object]) -> None:
    proto = greedy_decoder()
    session = InferenceSession(proto.SerializeToString())
    decoder = afterglow.compile(proto, dims={"s": (1, 9)}, **options)
    counts = set()
    for prompt in prompts([*LENGTHS, 9, 5]):
        (wanted,) = session.run(None, {"prompt": prompt})
        np.testing.assert_array_equal(decoder(prompt), wanted)
        counts.add(len(wanted))
    assert len(counts) > 1  # some end before they must
    assert len(decoder.versions()) == 1


def stops_of(proto: onnx.ModelProto) -> dict[str, str]:
    """The nodes at which a model is partitioned, and why."""
    with pytest.raises(NeedsValuesError) as caught:
        afterglow.import_model(proto, dims={"s": (1, 9)})
    assert caught.value.boundary is not None
    return {str(each): each.reason for each in caught.value.boundary.nodes}


def test_only_the_number_of_tokens_is_left_to_the_host() -> None:
    assert stops_of(greedy_decoder()) == {
        "Slice (decode)": "the shapes of its results depend on data"
    }


def test_a_decoder_is_saved_for_all_prompts(tmp_path: Path) -> None:
    decoder = afterglow.compile(greedy_decoder(), dims={"s": (1, 9)})
    (prompt,) = prompts([4])
    wanted = decoder(prompt)
    decoder.save(tmp_path / "decoder.agc")
    loaded = afterglow.load(tmp_path / "decoder.agc")
    np.testing.assert_array_equal(loaded(prompt), wanted)


HEADER = '<ir_version: 10, opset_import: ["": 17]>\n'
COUNTED = """
    main (float[b, s] x) => (float[b, t] y, float[r, b] sums)
        <int64 often = {70}, int64[1] one = {1}, float third = {0.3}> {
        y, sums = Loop (often, , x) <body = body
            (int64 i, bool c, float[b, u] before) => (bool d, float[b, w] after, float[b] total) {
            d = Identity (c)
            sum = ReduceSum <keepdims = 0> (before, one)
            small = Mul (sum, third)
            total = Tanh (small)
            column = Unsqueeze (total, one)
            after = Concat <axis = 1> (before, column, column)
        }>
    }
"""


def loops_of(module: Module) -> list[Loop]:
    return [node.op for node in module.main.nodes if isinstance(node.op, Loop)]


def test_a_loop_that_is_counted_returns_what_grew() -> None:
    proto = parser.parse_model(HEADER + COUNTED)
    module = afterglow.import_model(proto, dims={"s": (1, 6), "b": (1, 3)})
    assert [loop.iteration for loop in loops_of(module)] == [ranged(Dim("y.iteration", 0, 69))]
    assert [str(output.value.type) for output in module.main.outputs] == [
        "f32[b, s + 140]",
        "f32[70, b]",
    ]
    session = InferenceSession(proto.SerializeToString())
    compiled = afterglow.compile(proto, dims={"s": (1, 6), "b": (1, 3)})
    for shape in ((1, 1), (3, 2), (2, 6)):
        x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        for got, wanted in zip(compiled(x), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_exact_shapes_grow_too() -> None:
    proto = parser.parse_model(HEADER + COUNTED)
    compiled = afterglow.compile(proto, dims={"s": 4, "b": 2})
    x = np.random.default_rng(3).standard_normal((2, 4)).astype(np.float32)
    session = InferenceSession(proto.SerializeToString())
    for got, wanted in zip(compiled(x), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_what_is_in_the_way_of_a_loop_is_said() -> None:
    unlimited = greedy_decoder()
    unlimited.graph.node[-1].input[0] = ""
    assert stops_of(unlimited) == {
        "Loop (decode)": "values that it carries grow, and nothing bounds how often it runs"
    }


@pytest.fixture
def no_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is driven by the host."""

    def fail(*_: object) -> None:
        raise AssertionError("the host drives a body")

    monkeypatch.setattr(bodies.Bodies, "run", fail)


def check_tokens(proto: onnx.ModelProto, feeds: Sequence[dict[str, np.ndarray]]) -> set[int]:
    """The lengths of the first output, which all agree with ONNX Runtime's."""
    session = InferenceSession(proto.SerializeToString())
    compiled = afterglow.compile(proto, cache=False)
    lengths = set()
    for feed in feeds:
        for got, wanted in zip(compiled.run(None, feed), session.run(None, feed), strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, atol=1e-4)
        lengths.add(wanted.shape[-1])
    return lengths


def test_values_that_grew_until_a_condition_are_read_behind_the_loop(no_bodies: None) -> None:
    proto = greedy_decoder()
    proto.graph.output.append(info("all_keys", (1, HEADS, "length", WIDTH // HEADS)))
    check_tokens(proto, [{"prompt": prompt} for prompt in prompts(LENGTHS)])


UNTIL = """
    main (int64[1, s] begin, int64 last) => (int64[1, n] tokens)
        <float[7, 7] table = {TABLE}, int64 none = {0}, bool true = {1}, bool false = {0}> {
        tokens, steps = Loop (, true, begin, none) <body = body
            (int64 i, bool on, int64[1, a] so_far, int64 step)
            => (bool goes_on, int64[1, b] longer, int64 next) <int64 one = {1}, int64 most = {9}> {
            axes = Constant <value = int64[1] {1}> ()
            x = Gather (table, so_far)
            sums = ReduceSum <keepdims = 0> (x, axes)
            token = ArgMax <axis = 1, keepdims = 1> (sums)
            same = Identity (so_far)
            longer = Concat <axis = AXIS> (same, token)
            next = Add (step, one)
            is_last = Equal (token, last)
            goes_on = If (is_last) <then_branch = yes () => (bool ends) { ends = Identity (false) },
                else_branch = no () => (bool more) { more = LESS }>
        }>
    }
"""
"""As a script with a while loop is exported: no limit, and a condition in an If."""


@pytest.mark.parametrize("axis", ["1", "-1"])
@pytest.mark.parametrize("less", ["Less (next, most)", "GreaterOrEqual (most, next)"])
def test_a_condition_bounds_how_long_values_become(no_bodies: None, axis: str, less: str) -> None:
    numbers = np.random.default_rng(4).standard_normal(49)
    table = ", ".join(f"{number:.3f}" for number in numbers)
    text = UNTIL.replace("TABLE", table).replace("AXIS", axis).replace("LESS", less)
    feeds = [
        {"begin": np.arange(start, start + 3)[None] % 7, "last": np.array(last)}
        for start in range(7)
        for last in (*range(7), 100)
    ]
    lengths = check_tokens(parser.parse_model(HEADER + text), feeds)
    assert {4, 12 + (less[0] == "G")} <= lengths
    assert len(lengths) > 2


REPEATED = """
    main (float[s, 4] x) => (float[n, 4] y)
        <int64 none = {0}, int64 one = {1}, float[4] begin = {0, 0, 0, 0}> {
        shape = Shape <start = 0, end = 1> (x)
        length = Squeeze (shape)
        some = Less (none, length)
        count, end, y = Loop (length, some, none, begin) <body = body
            (int64 i, bool on, int64 place, float[4] before)
            => (bool goes_on, int64 next, float[4] after, float[4] out) {
            row = Gather (x, place)
            after = Add (before, row)
            out = Identity (after)
            next = Add (place, one)
            this = Cast <to = 1> (next)
            last = Cast <to = 1> (length)
            earlier = Less (this, last)
            before_limit = Less (i, length)
            goes_on = And (earlier, before_limit)
        }>
    }
"""


def test_a_condition_that_repeats_the_limit_is_none() -> None:
    proto = parser.parse_model(HEADER + REPEATED)
    compiled = afterglow.compile(proto, dims={"s": (1, 30)})
    session = InferenceSession(proto.SerializeToString())
    assert str(compiled.outputs[0]) == "y: f32[s, 4]"
    for length in (1, 2, 7, 30):
        x = np.random.default_rng(length).standard_normal((length, 4)).astype(np.float32)
        np.testing.assert_allclose(compiled(x), session.run(None, {"x": x})[0], atol=1e-4)


def test_a_condition_that_may_fail_before_the_limit_is_one() -> None:
    proto = parser.parse_model(HEADER + REPEATED.replace("Less (this, last)", "Less (this, four)"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(4), "four"))
    compiled = afterglow.compile(proto, dims={"s": (1, 30)})
    session = InferenceSession(proto.SerializeToString())
    for length in (1, 2, 4, 7):
        x = np.random.default_rng(length).standard_normal((length, 4)).astype(np.float32)
        np.testing.assert_allclose(compiled(x), session.run(None, {"x": x})[0], atol=1e-4)


def test_a_loop_is_unrolled_where_ops_take_no_ranged_extents() -> None:
    ordered = "often = {70}, int64[1] none = {0}, int64[1] one = {1}, float third = {0.3}"
    text = COUNTED.replace("often = {70}, int64[1] one = {1}, float third = {0.3}", ordered)
    text = text.replace(
        "small = Mul (sum, third)",
        """shape = Shape <start = 1, end = 2> (before)
            values, places = TopK <axis = 1> (before, shape)
            top = Slice (values, none, one, one)
            best = Squeeze (top, one)
            both = Add (sum, best)
            small = Mul (both, third)""",
    )
    proto = parser.parse_model(HEADER + text)
    module = afterglow.import_model(proto, dims={"s": 3, "b": 2})
    assert not loops_of(module)
