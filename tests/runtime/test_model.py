"""What a caller gives and gets that is not one tensor."""

from __future__ import annotations

import pickle

import numpy as np
import onnx
import pytest
from onnx import helper

import afterglow
from afterglow.support.errors import UsageError
from afterglow.types import Array, OutputForm, OutputKind
from afterglow.types.output_form import assemble
from tests.frontends.models import BOOL, FLOAT, INT64, info, model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3)
BOTH = (None, [X, 2 * X])


def sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


def optional(name: str) -> onnx.ValueInfoProto:
    element = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    return helper.make_value_info(name, helper.make_optional_type_proto(element))


def assert_lists_equal(got: list[Array], want: list[Array]) -> None:
    assert isinstance(got, list)
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_sequence_comes_back_as_a_list_between_tensors() -> None:
    nodes = [
        node("Neg", ["x"], ["y"]),
        node("SplitToSequence", ["x"], ["parts"], axis=1),
        node("Abs", ["x"], ["z"]),
    ]
    source = model(nodes, outputs=("y", sequence("parts"), "z"))
    compiled = afterglow.compile(source, verify=True)
    assert [str(output) for output in compiled.outputs] == [
        "y: f32[2, 3]",
        "parts: ?[…]",
        "z: f32[2, 3]",
    ]
    y, parts, z = compiled(X)
    np.testing.assert_array_equal(y, -X)
    np.testing.assert_array_equal(z, X)
    assert_lists_equal(parts, [X[:, i : i + 1] for i in range(3)])
    (only,) = compiled.run(["parts"], {"x": X})
    assert_lists_equal(only, parts)


@pytest.mark.parametrize("optimize", [True, False])
def test_a_sequence_may_have_no_elements(optimize: bool) -> None:
    source = model([node("SequenceEmpty", [], ["y"])], inputs=(), outputs=(sequence("y"),))
    assert afterglow.compile(source, optimize=optimize)() == []


def test_optionals_pass_through_full_or_empty() -> None:
    nodes = [node("Identity", ["x"], ["y"]), node("OptionalHasElement", ["x"], ["z"])]
    outputs = (optional("y"), info("z", (), BOOL))
    source = model(nodes, opset=18, inputs=(optional("x"),), outputs=outputs)
    compiled = afterglow.compile(source)
    for given in (*BOTH, *BOTH):
        got, has = compiled(given)
        assert has == (given is not None)
        if given is None:
            assert got is None
        else:
            assert_lists_equal(got, given)


def test_each_length_of_a_sequence_is_another_version() -> None:
    nodes = [node("SequenceInsert", ["s", "x"], ["y"]), node("SequenceLength", ["y"], ["n"])]
    source = model(
        nodes, inputs=(sequence("s"), "x"), outputs=(sequence("y"), info("n", (), INT64))
    )
    compiled = afterglow.compile(source)
    for count in (2, 0, 1, 2):
        given = [X + i for i in range(count)]
        got, length = compiled(given, -X)
        assert length == count + 1
        assert_lists_equal(got, [*given, -X])


@pytest.mark.usefixtures("exact_versions")
def test_what_ran_last_is_asked_only_for_what_it_takes() -> None:
    free = ("n", 3)
    proto = model([node("Neg", ["x"], ["y"])], inputs=[info("x", free)], outputs=[info("y", free)])
    compiled = afterglow.compile(proto)
    for rows in (2, 2, 5, 2, 5, 5):
        x = np.full((rows, 3), rows, np.float32)
        np.testing.assert_array_equal(compiled(x), -x)
    assert len(compiled.versions()) == 2
    with pytest.raises(UsageError, match="holds float32, got float64"):
        compiled(np.zeros((5, 3)))
    with pytest.raises(UsageError, match="no input 'z'"):
        compiled.run(None, {"z": x})
    with pytest.raises(UsageError, match="does not take"):
        compiled(np.zeros((5, 4), np.float32))


def test_values_that_different_versions_depend_on_add_up() -> None:
    """One shape asks for the value of an input that the other does not look at."""
    tail = node("Reshape", ["x", "shape"], ["y"])
    constants = {"two": np.array(2), "zero": np.array(0)}
    nodes = [
        node("Shape", ["x"], ["extents"]),
        node("Gather", ["extents", "zero"], ["rows"]),
        node("Equal", ["rows", "two"], ["is_two"]),
        node(
            "If",
            ["is_two"],
            ["shape"],
            then_branch=helper.make_graph(
                [node("Identity", ["a"], ["chosen"])], "then", [], [info("chosen", None, INT64)]
            ),
            else_branch=helper.make_graph(
                [node("Identity", ["b"], ["chosen"])], "else", [], [info("chosen", None, INT64)]
            ),
        ),
        tail,
    ]
    inputs = (info("x", ("n", 3)), info("a", (2,), INT64), info("b", (2,), INT64))
    compiled = afterglow.compile(
        model(nodes, inputs=inputs, outputs=(info("y", None),), constants=constants)
    )
    long = np.zeros((4, 3), np.float32)
    for _ in range(2):
        for shape in ((3, 2), (1, 6)):
            assert compiled(X, np.array(shape), np.array([12, 1])).shape == shape
        for shape in ((6, 2), (2, 6)):
            assert compiled(long, np.array([3, 2]), np.array(shape)).shape == shape


def test_texts_that_were_pickled_are_texts() -> None:
    text = onnx.TensorProto.STRING
    source = model(
        [node("StringConcat", ["x", "x"], ["y"])],
        opset=20,
        inputs=(info("x", (2,), text),),
        outputs=(info("y", (2,), text),),
    )
    x = pickle.loads(pickle.dumps(np.array(["a", "b"], object)))
    assert afterglow.compile(source)(x).tolist() == ["aa", "bb"]


def test_outputs_are_assembled_by_their_forms() -> None:
    forms = (
        OutputForm("a"),
        OutputForm("b", OutputKind.SEQUENCE, 2),
        OutputForm("c", OutputKind.NOTHING, 0),
        OutputForm("d", OutputKind.MAPS, keys=("p", "q")),
    )
    got = assemble(forms, [X, X[0], X[1], X[:, :2]])
    assert got[0] is X
    assert_lists_equal(got[1], [X[0], X[1]])
    assert got[2:] == [None, [{"p": 0.0, "q": 1.0}, {"p": 3.0, "q": 4.0}]]


def test_a_submitted_run_gives_what_a_call_gives() -> None:
    compiled = afterglow.compile(model([node("Mul", ["x", "x"], ["y"])]))
    futures = [compiled.submit(X + number) for number in range(40)]
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(60), compiled(X + number))
    np.testing.assert_array_equal(compiled.submit(x=X).result(60), X * X)


def test_the_error_of_a_submitted_run_comes_with_its_result() -> None:
    compiled = afterglow.compile(model([node("Neg", ["x"], ["y"])]))
    future = compiled.submit(X, z=X)
    with pytest.raises(UsageError, match="the model has no input 'z'"):
        future.result(60)


def test_a_call_with_values_that_a_version_is_for_needs_no_closer_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = model(
        [node("Expand", ["x", "shape"], ["y"])],
        inputs=(info("x", (1,)), info("shape", (2,), INT64)),
        outputs=(info("y", None),),
    )
    compiled = afterglow.compile(source)
    looks: list[object] = []
    checked = type(compiled)._checked
    monkeypatch.setattr(
        type(compiled), "_checked", lambda self, feed: looks.append(feed) or checked(self, feed)
    )
    x, shapes = np.ones(1, np.float32), [np.array([2, 3]), np.array([4, 1])]
    for shape in (shapes[0], shapes[0], shapes[1], shapes[1], shapes[0]):
        assert compiled(x, shape).shape == (*shape,)
    assert len(looks) == 3  # whenever the value is not the one before
