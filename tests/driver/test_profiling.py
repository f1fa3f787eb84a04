"""`profile`: what models of all kinds observe of their values, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import afterglow
from afterglow.quantization.observation import Observation
from afterglow.quantization.profile import Profile
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.types import Array
from tests.quantization.checks import assert_same

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
WEIGHT = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
node = helper.make_node


def model(
    nodes: list[onnx.NodeProto],
    shape: tuple[int | str, ...] = (2, 3),
    weights: dict[str, Array] | None = None,
) -> onnx.ModelProto:
    """A model of x that returns y."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(a, name) for name, a in (weights or {"w": WEIGHT}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def linear(shape: tuple[int | str, ...] = (2, 3)) -> onnx.ModelProto:
    return model(
        [
            node("MatMul", ["x", "w"], ["product"], name="first"),
            node("Relu", ["product"], ["y"], name="second"),
        ],
        shape,
    )


def rows(count: int, scale: float = 1.0) -> Array:
    return (np.random.default_rng(count).standard_normal((count, 3)) * scale).astype(np.float32)


def merged(samples: list[Array]) -> Observation:
    found = Observation.of(samples[0])
    for x in samples[1:]:
        found = found.merge(Observation.of(x))
    return found


def test_what_a_product_reads_is_observed() -> None:
    samples = [rows(2), rows(2, 5), rows(2, 0.1)]
    profile = afterglow.profile(linear(), samples, threads=1)
    assert_same(profile.observations["x"], merged(samples))
    assert profile.samples == 3
    assert profile.left_out == ()


def test_a_profile_is_tied_to_its_model(tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    onnx.save(linear(), path)
    profile = afterglow.profile(path, [rows(2)], threads=1)
    assert profile.model.title == "linear.onnx"
    assert profile.model.ops == {"MatMul": 1, "Relu": 1}
    assert profile.model.inputs == {"x": "f32[2, 3]"}
    renamed = linear()
    renamed.graph.node[0].name = "another"
    assert afterglow.profile(renamed, [rows(2)], threads=1).model.hash == profile.model.hash


def test_a_module_has_a_profile() -> None:
    module = afterglow.import_model(linear())
    profile = afterglow.profile(module, [rows(2)], threads=1)
    assert_same(profile.observations["x"], Observation.of(rows(2)))
    profile.check_same(module)


def test_samples_of_any_extent_are_observed() -> None:
    samples = [rows(n) for n in (2, 7, 1, 30)]
    profile = afterglow.profile(linear(("n", 3)), samples, threads=1)
    assert_same(profile.observations["x"], merged(samples))


def test_dimensions_may_have_bounds() -> None:
    samples = [rows(n) for n in (2, 7)]
    profile = afterglow.profile(linear(("n", 3)), samples, threads=1, dims={"n": (1, 9)})
    assert_same(profile.observations["x"], merged(samples))


def test_models_in_parts_are_observed_in_all_of_them() -> None:
    proto = model(
        [
            node("MatMul", ["x", "w"], ["product"], name="first"),
            node("NonZero", ["product"], ["places"], name="where"),
            node("Transpose", ["places"], ["tuples"]),
            node("GatherND", ["product", "tuples"], ["found"], name="take"),
            node("Unsqueeze", ["found", "axis"], ["column"]),
            node("MatMul", ["column", "v"], ["y"], name="last"),
        ],
        weights={"w": WEIGHT, "v": WEIGHT[:1], "axis": np.array([1])},
    )
    samples = [rows(2), -rows(2)]
    profile = afterglow.profile(proto, samples, threads=1)
    assert_same(profile.observations["x"], merged(samples))
    assert profile.origins["column"] == "column"
    assert profile.left_out == ("NonZero (where)",)


def with_loop(*after: onnx.NodeProto) -> onnx.ModelProto:
    """A loop with a product inside, and what follows it."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("MatMul", ["carried", "square"], ["next"], name="inside"),
            node("Identity", ["going"], ["on"]),
        ],
        "body",
        [info("i", INT64, ()), info("going", BOOL, ()), info("carried", FLOAT, (2, 3))],
        [info("on", BOOL, ()), info("next", FLOAT, (2, 3))],
    )
    return model(
        [node("Loop", ["count", "", "x"], ["looped"], body=body, name="loop"), *after],
        weights={"w": WEIGHT, "square": WEIGHT[:, :3].copy(), "count": np.array(3)},
    )


def test_bodies_of_loops_are_left_out() -> None:
    proto = with_loop(node("MatMul", ["looped", "w"], ["y"], name="after"))
    profile = afterglow.profile(proto, [rows(2)], threads=1)
    assert profile.left_out == ("inside",)
    assert profile.origins == {"x": "", "looped": "loop", "y": "after"}


def test_a_model_with_all_in_loops_cannot_be_quantized() -> None:
    fails(
        [rows(2)],
        "nothing in the model can be quantized: it has no convolution or product with weights, "
        "but in loops, branches, before logarithms or on the host\n    inside",
        with_loop(node("Relu", ["looped"], ["y"])),
    )


def test_progress_is_told() -> None:
    stages: list[str] = []
    done: list[tuple[int, int | None]] = []
    samples = [rows(2)] * 3
    tell: Any = lambda *numbers: done.append(numbers)  # noqa: E731
    afterglow.profile(linear(), samples, threads=1, progress=stages.append, on_sample=tell)
    assert stages[:2] == ["import", "optimise"]
    assert done == [(1, 3), (2, 3), (3, 3)]
    afterglow.profile(linear(), iter(samples), threads=1, limit=2, on_sample=tell)
    assert done[3:] == [(1, 2), (2, 2)]


def fails(samples: Any, text: str, proto: onnx.ModelProto | None = None, **options: Any) -> None:
    with pytest.raises(AfterglowError) as caught:
        afterglow.profile(proto or linear(), samples, threads=1, **options)
    assert str(caught.value) == f"error: {text}"


def test_a_profile_needs_samples() -> None:
    text = "there are no samples\n  help: give some that are like the inputs of later runs"
    fails([], text)
    fails(np.zeros((0, 2, 3), np.float32), text)


def test_samples_that_the_model_does_not_take_are_named() -> None:
    good = rows(2)
    fails(
        [good, good[:, :2]],
        "input 'x: f32[2, 3]' does not take an array of shape (2, 2)\n  in sample 1",
    )
    fails(
        [good, good.astype(np.float64)],
        "input 'x' holds float32, got float64\n  in sample 1\n"
        "  help: convert it: array.astype('float32')",
    )
    fails([{"x": good}, {"z": good}], "the model has no input 'z'\n  in sample 1\n  help: it has x")


def test_values_that_are_not_finite_are_named() -> None:
    bad = rows(2)
    bad[1, 1] = np.nan
    help = "help: quantize a model that computes finite numbers, and give samples like its inputs"
    fails(
        [rows(2), bad],
        "value %x is NaN, so it has no range to quantize\n"
        f"  an input of the model, in sample 1\n  {help}",
    )
    proto = model(
        [
            node("Exp", ["x"], ["power"], name="exponential"),
            node("MatMul", ["power", "w"], ["y"], name="first"),
        ]
    )
    fails(
        [rows(2), rows(2), rows(2, 1000)],
        "value %power is infinite, so it has no range to quantize\n"
        f"  in node 'exponential', in sample 2\n  {help}",
        proto,
    )


def test_a_model_without_products_cannot_be_quantized() -> None:
    fails(
        [rows(2)],
        "nothing in the model can be quantized: it has no convolution or product with weights",
        model([node("Relu", ["x"], ["y"])]),
    )


def test_an_iterator_that_fails_is_not_hidden() -> None:
    def broken() -> Iterator[Array]:
        yield rows(2)
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        afterglow.profile(linear(), broken(), threads=1)


def test_a_saved_profile_is_of_the_public_class(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    afterglow.profile(linear(), [rows(2)], threads=1).save(path)
    assert isinstance(afterglow.Profile.load(path), Profile)
    with pytest.raises(UsageError):
        afterglow.Profile.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"precision": "int8"},
            "precision 'int8' needs a profile of the model\n  help: make one with "
            "profile(model, samples), or with afterglow quantize MODEL --data",
        ),
        (
            {"profile": True},
            "precision 'float32' takes no profile\n  help: use precision 'int8'",
        ),
        (
            {"quantization": afterglow.QuantizationConfig(method="mse")},
            "precision 'float32' takes no options of quantization\n  help: use precision 'int8'",
        ),
        (
            {"precision": "int8", "profile": True, "optimize": False},
            "precision 'int8' needs optimisations\n"
            "  help: profiles are of the optimised graph: leave optimize as it is",
        ),
    ],
)
def test_combinations_that_make_no_sense_are_refused(options: dict[str, Any], text: str) -> None:
    made = linear()
    if "profile" in options:
        options = {**options, "profile": afterglow.profile(made, [rows(2)], backend="interpreter")}
    with pytest.raises(UsageError) as caught:
        afterglow.compile(made, backend="interpreter", **options)
    assert str(caught.value) == f"error: {text}"
