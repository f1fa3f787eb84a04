"""Models that keep inputs as state: each call goes on where the last one ended."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession

import afterglow
from afterglow.instr import Copy
from afterglow.support.errors import UsageError
from afterglow.types import Array
from tests.frontends.models import info, model, node

HEADS, WIDTH, LAYERS, CAPACITY = 2, 8, 2, 12
SIZE = HEADS * WIDTH
PAST = {"past": (0, CAPACITY - 1)}
STATE = {"past.*": "present.*"}


def decoder() -> onnx.ModelProto:
    """A step of a decoder: attention over what was seen, in two layers."""
    random = np.random.default_rng(0)
    weights: dict[str, object] = {
        f"w{letter}{layer}": (random.standard_normal((SIZE, SIZE)) / 4).astype(np.float32)
        for layer in range(LAYERS)
        for letter in "qkvo"
    }
    shapes = {"split": np.array([0, 0, HEADS, WIDTH]), "merge": np.array([0, 0, SIZE])}
    nodes, inputs, outputs, x = [], [info("x", (1, 1, SIZE))], [], "x"
    for layer in range(LAYERS):
        nodes += layer_nodes(layer, x)
        x = f"y{layer}"
        for letter in "kv":
            kept = (1, HEADS, "past", WIDTH)
            inputs.append(info(f"past.{layer}.{letter}", kept))
            outputs.append(info(f"present.{layer}.{letter}", (1, HEADS, "total", WIDTH)))
    outputs.insert(0, info(x, (1, 1, SIZE)))
    constants = {**weights, **shapes, "scale": np.float32(1 / math.sqrt(WIDTH))}
    return model(nodes, inputs=inputs, outputs=outputs, constants=constants)


def layer_nodes(layer: int, x: str) -> list[onnx.NodeProto]:
    """Attention of one position, and the sum with what came in."""
    nodes = []
    for letter in "qkv":
        name = f"{letter}{layer}"
        nodes += [
            node("MatMul", [x, f"w{name}"], [f"{name}.p"]),
            node("Reshape", [f"{name}.p", "split"], [f"{name}.r"]),
            node("Transpose", [f"{name}.r"], [name], perm=[0, 2, 1, 3]),
        ]
    keys, values = (f"present.{layer}.{letter}" for letter in "kv")
    return [
        *nodes,
        node("Concat", [f"past.{layer}.k", f"k{layer}"], [keys], axis=2),
        node("Concat", [f"past.{layer}.v", f"v{layer}"], [values], axis=2),
        node("Transpose", [keys], [f"kt{layer}"], perm=[0, 1, 3, 2]),
        node("MatMul", [f"q{layer}", f"kt{layer}"], [f"s{layer}"]),
        node("Mul", [f"s{layer}", "scale"], [f"n{layer}"]),
        node("Softmax", [f"n{layer}"], [f"p{layer}"], axis=-1),
        node("MatMul", [f"p{layer}", values], [f"a{layer}"]),
        node("Transpose", [f"a{layer}"], [f"t{layer}"], perm=[0, 2, 1, 3]),
        node("Reshape", [f"t{layer}", "merge"], [f"m{layer}"]),
        node("MatMul", [f"m{layer}", f"wo{layer}"], [f"o{layer}"]),
        node("Add", [x, f"o{layer}"], [f"y{layer}"]),
    ]


@pytest.fixture(scope="module")
def inputs() -> list[Array]:
    random = np.random.default_rng(1)
    return [random.standard_normal((1, 1, SIZE)).astype(np.float32) for _ in range(CAPACITY)]


@pytest.fixture(scope="module")
def wanted(inputs: Sequence[Array]) -> list[Array]:
    """What the model gives that is handed its past in each call."""
    stateless = afterglow.compile(decoder(), backend="interpreter", dims=PAST)
    names = [f"past.{layer}.{letter}" for layer in range(LAYERS) for letter in "kv"]
    past = [np.zeros((1, HEADS, 0, WIDTH), np.float32) for _ in names]
    results = []
    for x in inputs:
        result, *past = stateless.run(None, {"x": x, **dict(zip(names, past, strict=True))})
        results.append(result)
    return results


@pytest.mark.parametrize(
    "options", [{}, {"optimize": False}, {"backend": "interpreter"}, {"verify": True}]
)
def test_each_step_goes_on_where_the_last_one_ended(
    options: dict[str, object], inputs: list[Array], wanted: list[Array]
) -> None:
    steps = afterglow.compile(decoder(), dims=PAST, state=STATE, **options)
    assert [str(each) for each in (*steps.inputs, *steps.outputs)] == [
        f"x: f32[1, 1, {SIZE}]",
        f"y1: f32[1, 1, {SIZE}]",
    ]
    for x, result in zip(inputs, wanted, strict=True):
        np.testing.assert_allclose(steps(x), result, atol=1e-5)


def test_no_step_copies_what_is_filled() -> None:
    steps = afterglow.compile(decoder(), dims=PAST, state=STATE)
    program = afterglow.compile(decoder(), dims=PAST, state=STATE, cache=False).compiled.program
    copied = [step.dest.type.shape for step in program.body if isinstance(step, Copy)]
    assert copied == [(1, HEADS, 1, WIDTH)] * 2 * LAYERS
    sizes = [port.type.nbytes for port in steps.compiled.interface.states]
    assert sizes == [HEADS * CAPACITY * WIDTH * 4] * 2 * LAYERS


def test_a_full_state_is_refused_before_anything_changes(
    inputs: list[Array], wanted: list[Array]
) -> None:
    steps = afterglow.compile(decoder(), dims=PAST, state=STATE)
    for x in inputs:
        steps(x)
    before = {name: state.read().result() for name, state in steps.compiled.states.items()}
    with pytest.raises(UsageError) as caught:
        steps(inputs[0])
    assert str(caught.value) == (
        "error: state 'past.0.k' is full: it holds 12 of at most 12 along axis 2\n"
        "  help: empty it with model.reset(), or compile the model for more: "
        "dims={'past': (0, LAST)}"
    )
    for name, state in steps.compiled.states.items():
        np.testing.assert_array_equal(state.read().result(), before[name])
    steps.reset()
    np.testing.assert_allclose(steps(inputs[0]), wanted[0], atol=1e-5)


def test_state_goes_on_from_arrays(inputs: list[Array], wanted: list[Array]) -> None:
    steps = afterglow.compile(decoder(), dims=PAST, state=STATE)
    for x in inputs[:3]:
        steps(x)
    states = steps.compiled.states.items()
    held = {name: state.read().result()[:, :, :3] for name, state in states}
    steps.reset()
    steps.reset(held)
    np.testing.assert_allclose(steps(inputs[3]), wanted[3], atol=1e-5)


def test_arrays_that_no_state_can_hold_are_refused_before_anything_changes(
    inputs: list[Array], wanted: list[Array]
) -> None:
    steps = afterglow.compile(decoder(), dims=PAST, state=STATE)
    steps(inputs[0])
    good = np.zeros((1, HEADS, 5, WIDTH), np.float32)
    with pytest.raises(UsageError) as caught:
        steps.reset({"past.0.k": good, "past.1.v": np.zeros((1, HEADS, 12, WIDTH), np.float32)})
    assert str(caught.value) == (
        "error: state 'past.1.v' cannot hold f32[1, 2, 12, 8]: it begins a run with at most "
        "f32[1, 2, 11, 8]"
    )
    with pytest.raises(UsageError) as caught:
        steps.reset({"past": good})
    assert str(caught.value) == (
        "error: the model has no state 'past'\n"
        "  help: it has 'past.0.k', 'past.0.v', 'past.1.k', 'past.1.v'"
    )
    np.testing.assert_allclose(steps(inputs[1]), wanted[1], atol=1e-5)


def test_copies_of_a_model_go_their_own_ways(inputs: list[Array], wanted: list[Array]) -> None:
    first = afterglow.compile(decoder(), dims=PAST, state=STATE)
    first(inputs[0])
    second = copy.deepcopy(first)
    for steps in (first, second):
        np.testing.assert_allclose(steps(inputs[1]), wanted[1], atol=1e-5)


def test_several_rows_are_appended_at_once() -> None:
    shapes = {
        "inputs": [info("x", ("new", 4)), info("past", ("past", 4))],
        "outputs": [info("sum", (1, 4)), info("present", ("total", 4))],
    }
    nodes = [
        node("Concat", ["past", "x"], ["present"], axis=0),
        node("ReduceSum", ["present", "axes"], ["sum"], keepdims=1),
    ]
    proto = model(nodes, constants={"axes": np.array([0])}, **shapes)
    dims = {"past": (0, 20), "new": (1, 5)}
    steps = afterglow.compile(proto, dims=dims, state={"past": "present"})
    random = np.random.default_rng(2)
    total = np.zeros((1, 4), np.float32)
    for count in (5, 1, 4, 5, 5, 1):
        x = random.standard_normal((count, 4)).astype(np.float32)
        total += x.sum(0, keepdims=True)
        np.testing.assert_allclose(steps(x), total, atol=1e-5)
    with pytest.raises(UsageError, match="it holds 21 of at most 25 along axis 0"):
        steps(x)


def test_state_that_does_not_grow_is_kept(tmp_path: Path) -> None:
    shapes = {"inputs": [info("x", (4,)), info("h", (4,))], "outputs": [info("y", (4,))]}
    proto = model([node("Add", ["x", "h"], ["y"])], **shapes)
    proto.graph.output.append(info("next", (4,)))
    proto.graph.node.append(node("Tanh", ["y"], ["next"]))
    steps = afterglow.compile(proto, state={"h": "next"})
    x, held = np.ones(4, np.float32), np.zeros(4, np.float32)
    for _ in range(3):
        np.testing.assert_allclose(steps(x), x + held, atol=1e-6)
        held = np.tanh(x + held)
    steps.reset()
    np.testing.assert_array_equal(steps(x), x)


def test_state_needs_one_program() -> None:
    with pytest.raises(UsageError) as caught:
        afterglow.compile(decoder(), state=STATE)
    assert str(caught.value) == (
        "error: a model that keeps state must be one program for all shapes\n"
        "  help: give an extent or bounds of every dimension: "
        "dims={'past': (0, 1023), 'batch': 1}"
    )


def test_names_must_be_given_for_state() -> None:
    with pytest.raises(UsageError, match="state must be a dictionary with names as keys"):
        afterglow.compile(decoder(), state=["past"])  # type: ignore[arg-type]  # what is refused


def test_a_saved_model_keeps_state_of_its_own(
    tmp_path: Path, inputs: list[Array], wanted: list[Array]
) -> None:
    steps = afterglow.compile(decoder(), dims=PAST, state=STATE)
    steps(inputs[0])
    steps.save(tmp_path / "steps.agc")
    loaded = afterglow.load(tmp_path / "steps.agc")
    for x, result in zip(inputs, wanted, strict=True):
        np.testing.assert_allclose(loaded(x), result, atol=1e-5)
    with pytest.raises(UsageError, match=r"state 'past\.0\.k' is full"):
        loaded(inputs[0])
    loaded.reset()
    np.testing.assert_allclose(loaded(inputs[0]), wanted[0], atol=1e-5)


def test_a_cached_model_keeps_state(
    tmp_path: Path, inputs: list[Array], wanted: list[Array]
) -> None:
    path = tmp_path / "decoder.onnx"
    onnx.save(decoder(), path)
    for _ in range(2):
        steps = afterglow.compile(path, dims=PAST, state=STATE, cache=tmp_path / "cache")
        for x, result in zip(inputs[:2], wanted[:2], strict=True):
            np.testing.assert_allclose(steps(x), result, atol=1e-5)
    plain = afterglow.compile(path, dims=PAST, cache=tmp_path / "cache")
    assert len(plain.inputs) == 1 + 2 * LAYERS


def masked(total: str) -> onnx.ModelProto:
    """The sum of all rows so far, each times an element of a mask."""
    nodes = [
        node("Concat", ["past", "x"], ["present"], axis=0),
        node("MatMul", ["mask", "present"], ["sum"]),
    ]
    inputs = [info("x", (1, 4)), info("mask", (1, total)), info("past", ("past", 4))]
    outputs = [info("sum", (1, 4)), info("present", ("rows", 4))]
    return model(nodes, inputs=inputs, outputs=outputs)


@pytest.mark.parametrize(
    ("total", "dims"),
    [("past + 1", {"past": (0, 5)}), ("total", {"past": (0, 5), "total": "past + 1"})],
)
def test_dimensions_that_depend_on_the_fill_level(total: str, dims: dict[str, object]) -> None:
    steps = afterglow.compile(masked(total), dims=dims, state={"past": "present"})
    rows = np.random.default_rng(4).standard_normal((6, 4)).astype(np.float32)
    for count in range(1, 7):
        mask = np.arange(count, dtype=np.float32)[None]
        result = steps(rows[count - 1 : count], mask)
        np.testing.assert_allclose(result, mask @ rows[:count], atol=1e-5)
    steps.reset()
    with pytest.raises(UsageError) as caught:
        steps(rows[:1], np.ones((1, 2), np.float32))
    assert str(caught.value) == (
        "error: axis 1 of input 'mask' has 2 elements, but past + 1 is 1 with past = 0"
    )


def test_expressions_over_dimensions_must_be_some() -> None:
    with pytest.raises(UsageError) as caught:
        afterglow.compile(masked("total"), dims={"past": (0, 5), "total": "length + 1"})
    assert str(caught.value) == (
        "error: dimension 'total' cannot be 'length + 1': dimension 'length' is not declared\n"
        "  help: a text is an expression over dimensions with an extent or bounds: 'past + 1'; "
        "bounds are a tuple: (1, 512)"
    )


@pytest.mark.parametrize("batch", [2, "batch"])
def test_a_prompt_of_any_length_is_followed_by_steps(batch: int | str) -> None:
    names = ["q", "k", "v", "", "past_key", "past_value"]
    results = ["y", "present_key", "present_value"]
    attention = node("Attention", names, results, is_causal=1)
    shapes = dict.fromkeys("qkv", (batch, HEADS, "new", WIDTH))
    past = dict.fromkeys(names[4:], (batch, HEADS, "past", WIDTH))
    inputs = [info(name, shape) for name, shape in {**shapes, **past}.items()]
    outputs = [info(name, (batch, HEADS, f"{name} rows", WIDTH)) for name in results]
    proto = model([attention], inputs=inputs, outputs=outputs, opset=23)
    dims = {"past": (0, 20), "new": (1, 9), **({} if batch == 2 else {"batch": (1, 4)})}
    steps = afterglow.compile(proto, dims=dims, state={"past_*": "present_*"})
    random = np.random.default_rng(5)
    whole = random.standard_normal((3, 2, HEADS, 16, WIDTH)).astype(np.float32)
    done = 0
    for count in (9, 1, 1, 5):
        part = whole[:, :, :, done : done + count]
        wanted = attended(part[0], *whole[1:, :, :, : done + count])
        np.testing.assert_allclose(steps(*part), wanted, atol=1e-5)
        done += count


def attended(q: Array, k: Array, v: Array) -> Array:
    """Attention of the last positions to all before them and to themselves."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(WIDTH)
    places = np.arange(k.shape[2])
    scores = np.where(places <= places[-q.shape[2] :, None], scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True) @ v


def cached_attention(op: str, batch: int) -> onnx.ModelProto:
    """Attention of com.microsoft that returns its cache, for one new position of a sequence."""
    wide, narrow = (batch, 1, 2 * SIZE), (batch, 1, SIZE)
    inputs = [info("q", wide if op == "GroupQueryAttention" else narrow)]
    inputs += [info(name, narrow) for name in "kv"]
    names, nodes, attributes = ["q", "k", "v"], [], {"num_heads": HEADS}
    if op == "GroupQueryAttention":
        inputs.append(info("lasts", (batch,), onnx.TensorProto.INT32))
        nodes = [
            node("Shape", ["past.k"], ["filled"], start=2, end=3),
            node("Squeeze", ["filled"], ["rows"]),
            node("Add", ["rows", "one"], ["sum"]),
            node("Cast", ["sum"], ["total"], to=onnx.TensorProto.INT32),
        ]
        names += ["past.k", "past.v", "lasts", "total"]
        attributes = {"num_heads": 2 * HEADS, "kv_num_heads": HEADS}
    else:
        names += ["", "", "", "past.k", "past.v"]
    inputs += [info(f"past.{letter}", (batch, HEADS, "past", WIDTH)) for letter in "kv"]
    results = ["y", "present.k", "present.v"]
    nodes.append(node(op, names, results, domain="com.microsoft", **attributes))
    outputs = [info("y", (batch, 1, None))]
    outputs += [info(name, (batch, HEADS, "total", WIDTH)) for name in results[1:]]
    constants = {"one": np.array(1)}
    domains = {"com.microsoft": 1}
    return model(nodes, inputs=inputs, outputs=outputs, constants=constants, domains=domains)


@pytest.mark.parametrize("op", ["GroupQueryAttention", "MultiHeadAttention"])
@pytest.mark.parametrize("batch", [1, 2])
def test_attention_with_a_cache_appends_in_place(op: str, batch: int) -> None:
    proto = cached_attention(op, batch)
    steps = afterglow.compile(proto, dims=PAST, state=STATE, cache=False)
    copied = [s.dest.type for s in steps.compiled.program.body if isinstance(s, Copy)]
    assert all(type.nbytes < batch * SIZE * CAPACITY * 4 for type in copied)
    session = InferenceSession(proto.SerializeToString())
    random = np.random.default_rng(6)
    past = dict.fromkeys(["past.k", "past.v"], np.zeros((batch, HEADS, 0, WIDTH), np.float32))
    for step in range(CAPACITY):
        feed = {
            name: random.standard_normal([each if isinstance(each, int) else 1 for each in shape])
            for name, shape in ((each.name, each.shape) for each in steps.inputs)
        }
        feed = {name: array.astype(np.float32) for name, array in feed.items()}
        if "lasts" in feed:  # the second sequence is two shorter
            feed["lasts"] = np.array([step, max(step - 2, 0)][:batch], np.int32)
        wanted, *after = session.run(None, {**feed, **past})
        past = dict(zip(past, after, strict=True))
        np.testing.assert_allclose(steps.run(None, feed)[0], wanted, atol=2e-5)


def test_a_program_with_state_is_tuned() -> None:
    dims = {"past": (0, 5)}
    steps = afterglow.compile(masked("past + 1"), dims=dims, state={"past": "present"}, tune=0.05)
    row, mask = np.ones((1, 4), np.float32), np.ones((1, 1), np.float32)
    np.testing.assert_array_equal(steps(row, mask), row)
