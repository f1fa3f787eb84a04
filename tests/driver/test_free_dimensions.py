"""A model with a free dimension, run with many extents of it."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.runtime.versions import SPECIALISATIONS
from afterglow.support.errors import MemoryLimitError, ModelError, UsageError
from afterglow.types import Array
from tests.frontends.models import info, model, node

FEATURES, HIDDEN = 24, 40
SIZES = [int(n) for n in np.random.default_rng(1).permutation(np.arange(1, 51))]


def perceptron() -> tuple[onnx.ModelProto, tuple[Array, Array]]:
    random = np.random.default_rng(0)
    first = random.normal(size=(FEATURES, HIDDEN)).astype(np.float32)
    second = random.normal(size=(HIDDEN, 3)).astype(np.float32)
    nodes = [
        node("MatMul", ["x", "first"], ["a"]),
        node("Relu", ["a"], ["h"]),
        node("MatMul", ["h", "second"], ["y"]),
    ]
    proto = model(
        nodes,
        inputs=[info("x", ("batch", FEATURES))],
        outputs=[info("y", ("batch", 3))],
        constants={"first": first, "second": second},
    )
    return proto, (first, second)


def check_all(compiled: afterglow.CompiledModel, weights: tuple[Array, Array]) -> None:
    first, second = weights
    for size in SIZES:
        x = np.random.default_rng(size).normal(size=(size, FEATURES)).astype(np.float32)
        want = np.maximum(x @ first, 0) @ second
        np.testing.assert_allclose(compiled(x), want, rtol=1e-4, atol=1e-4)
        assert len(compiled.versions()) <= SPECIALISATIONS


@pytest.mark.usefixtures("exact_versions")
def test_no_size_is_compiled_twice(tmp_path: Path, finished: list[tuple[int, ...]]) -> None:
    proto, weights = perceptron()
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    compiled = afterglow.compile(path, cache=tmp_path / "cache", threads=1)
    check_all(compiled, weights)
    assert sorted(finished) == [(size, FEATURES) for size in range(1, 51)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check_all(compiled, weights)  # those that were dropped come back from the disk
    after_restart = afterglow.compile(path, cache=tmp_path / "cache", threads=1)
    check_all(after_restart, weights)
    assert len(finished) == 50
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10  # KiB


@pytest.mark.usefixtures("exact_versions")
def test_listed_extents_are_compiled_ahead(finished: list[tuple[int, ...]]) -> None:
    proto, (first, second) = perceptron()
    compiled = afterglow.compile(proto, dims={"batch": [1, 4, 8]})
    assert finished == [(1, FEATURES), (4, FEATURES), (8, FEATURES)]
    for size in (4, 1, 8, 3):
        x = np.ones((size, FEATURES), np.float32)
        want = np.maximum(x @ first, 0) @ second
        np.testing.assert_allclose(compiled(x), want, rtol=1e-4, atol=1e-4)
    assert finished[3:] == [(3, FEATURES)]


def test_extents_outside_a_range_are_refused() -> None:
    proto, _ = perceptron()
    compiled = afterglow.compile(proto, dims={"batch": (2, 5)})
    assert compiled(np.ones((5, FEATURES), np.float32)).shape == (5, 3)
    with pytest.raises(UsageError) as caught:
        compiled(np.ones((6, FEATURES), np.float32))
    assert str(caught.value) == (
        "error: dimension 'batch' of input 'x' is 6, out of its bounds 2..5\n"
        "  help: compile with other bounds: dims={'batch': (FIRST, LAST)} "
        "or --dim batch=FIRST..LAST"
    )


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"bach": [1]}, "no input has a dynamic dimension 'bach': there are 'batch'"),
        (
            {"batch": (5, 2)},
            "dimension 'batch' cannot be (5, 2): the first extent is larger than the last",
        ),
        (
            {"batch": (-1, 2)},
            "cannot be (-1, 2): a range has two or three numbers, none of them negative",
        ),
        ({"batch": (1, 2, 3, 4)}, "a range has two or three numbers, none of them negative"),
        ({"batch": (1.5, 2)}, "a range has two or three numbers, none of them negative"),
        ({"batch": (32, 640, 48)}, "cannot be (32, 640, 48): 32 is not a multiple of the step 48"),
        ({"batch": (2, 7, 2)}, "cannot be (2, 7, 2): 7 is not a multiple of the step 2"),
        ({"batch": (1, 2, 0)}, "cannot be (1, 2, 0): the step is 0"),
        (
            {"batch": (1, 2**31)},
            "cannot be (1, 2147483648): the largest extent there can be is 2147483647",
        ),
        ({"batch": [1, -4]}, "dimension 'batch' cannot be [1, -4]"),
        (
            {"batch": []},
            "help: give an extent, 8, a range, (1, 512), or several extents, [1, 4, 8]",
        ),
        ({"batch": 1.5}, "dimension 'batch' cannot be 1.5\n  help: give an extent, 8, a range"),
        ({"batch": None}, "dimension 'batch' cannot be None"),
        ({"batch": "1..5"}, "'1..5': expected the end of an extent, found '..'\n  help: a text is"),
        ({"batch": "2 - 5"}, "dimension 'batch' cannot be -3"),
        ({"bach": (3, 3)}, "no input has a dimension 'bach': there are 'batch'"),
        ({"batch": list(range(17))}, "17 versions of the model are requested, the limit is 16"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(dims: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        afterglow.compile(perceptron()[0], dims=dims)
    assert message in str(caught.value)


@pytest.mark.parametrize("extent", [(3, 3), "3", "2 + 1"])
def test_a_range_of_one_extent_and_a_text_without_dimensions_are_numbers(extent) -> None:
    compiled = afterglow.compile(perceptron()[0], dims={"batch": extent})
    assert compiled.inputs[0].shape == (3, FEATURES)
    assert compiled.dims == {}


def test_a_dimension_of_an_input_with_a_shape_takes_no_bounds() -> None:
    with pytest.raises(UsageError) as caught:
        afterglow.compile(perceptron()[0], dims={"batch": (1, 8)}, shapes={"x": (4, FEATURES)})
    assert str(caught.value) == (
        "error: no input has a dynamic dimension 'batch'\n  help: shapes bind all dimensions of 'x'"
    )


def test_bounds_that_need_too_much_memory_are_an_error_that_names_them() -> None:
    with pytest.raises(MemoryLimitError) as caught:
        afterglow.compile(perceptron()[0], dims={"batch": (1, 10**6)}, max_memory="1MiB")
    assert caught.value.where.endswith(", with batch = 1000000")
    assert caught.value.help == (
        "give bounds within which the model works, instead of batch 1..1000000, "
        "or allow more with max_memory, or --max-memory"
    )


def wide(*more: onnx.NodeProto) -> onnx.ModelProto:
    """Outer product of a: f32[width] and b: f32[width], which exporters call by one name."""
    nodes = [node("Einsum", ["a", "b"], ["t"], equation="i,j->ij"), *more]
    inputs = [info("a", ("width",)), info("b", ("width",))]
    return model(nodes, inputs=inputs, outputs=[info("y", None)])


PLAIN = node("Neg", ["t"], ["y"])
CUT = (node("NonZero", ["t"], ["i"]), node("Transpose", ["i"], ["j"]))
FOUND = node("GatherND", ["t", "j"], ["y"])


@pytest.mark.parametrize("more", [(PLAIN,), (*CUT, FOUND)])
def test_a_name_may_mean_several_extents(more, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(wide(*more), path)
    a, b = np.arange(1, 5, dtype=np.float32), np.arange(1, 4, dtype=np.float32)
    want = np.outer(a, b).reshape(-1) * (1 if len(more) > 1 else -1)
    compiled = afterglow.compile(path, cache=tmp_path / "cache")
    compiled(a, a)
    with pytest.warns(UserWarning, match="dimension 'width'") as caught:
        result = compiled(a, b)
    assert [str(warning.message) for warning in caught] == [
        "dimension 'width' has several extents, in 'a' and 'b': each is taken as it is"
    ]
    np.testing.assert_array_equal(result.reshape(-1), want)
    compiled.save(tmp_path / "model.agc")
    for again in (
        afterglow.load(tmp_path / "model.agc"),
        afterglow.compile(path, cache=tmp_path / "cache"),
    ):
        np.testing.assert_array_equal(again(a, b).reshape(-1), want)
        np.testing.assert_array_equal(again(a, a).reshape(-1)[:1], want[:1])


def test_a_name_with_several_extents_is_refused_where_the_model_needs_one() -> None:
    compiled = afterglow.compile(
        model(
            [node("Add", ["a", "b"], ["y"])],
            inputs=[info("a", ("width",)), info("b", ("width",))],
            outputs=[info("y", ("width",))],
        )
    )
    with pytest.warns(UserWarning, match="dimension 'width'"), pytest.raises(ModelError) as caught:
        compiled(np.ones(4, np.float32), np.ones(3, np.float32))
    assert "f32[4]" in str(caught.value)


def test_an_extent_given_by_name_holds_for_every_input() -> None:
    compiled = afterglow.compile(wide(PLAIN), dims={"width": 4})
    with pytest.raises(UsageError, match="does not take an array of shape"):
        compiled(np.ones(4, np.float32), np.ones(3, np.float32))
