"""Models whose dimensions are ranged: shape arithmetic becomes expressions, and data stay data."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from afterglow.graph import Builder, Module, run_function
from afterglow.support.errors import AfterglowError
from afterglow.types.extent import Dim, UndecidedExtentError
from tests.frontends.onnx.ranged import check, graph, imported

node = helper.make_node
B, S = Dim("b", 1, 4), Dim("s", 1, 12)
RUNS = [{"b": 1, "s": 1}, {"b": 3, "s": 2}, {"b": 2, "s": 7}, {"b": 4, "s": 12}]


def mnemonics(module: Module) -> list[str]:
    return [node.op.mnemonic for node in module.main.nodes]


def shape_of(module: Module, output: int = 0) -> str:
    return str(module.main.outputs[output].value.type)


def test_a_chain_of_shape_gather_and_concat_becomes_an_expression() -> None:
    model = graph(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["batch"]),
            node("Gather", ["shape", "one"], ["length"]),
            node("Unsqueeze", ["batch", "axis"], ["b1"]),
            node("Unsqueeze", ["length", "axis"], ["s1"]),
            node("Concat", ["b1", "s1", "heads", "left"], ["wanted"], axis=0),
            node("Reshape", ["x", "wanted"], ["y"]),
        ],
        {"x": ("f", "b", "s", 24)},
        {"zero": 0, "one": 1, "axis": [0], "heads": [4], "left": [-1]},
    )
    module = check(model, [B, S], RUNS)
    assert shape_of(module) == "f32[b, s, 4, 6]"
    assert mnemonics(module) == ["reshape"]


def test_the_rest_of_a_shape_is_found_by_division() -> None:
    model = graph(
        [node("Reshape", ["x", "wanted"], ["y"])],
        {"x": ("f", "b", "s", 24)},
        {"wanted": [-1, 12]},
    )
    assert shape_of(check(model, [B, S], RUNS)) == "f32[2*b*s, 12]"


def test_a_rest_that_some_extents_do_not_have_is_refused() -> None:
    model = graph(
        [node("Reshape", ["x", "wanted"], ["y"])], {"x": ("f", "s", 3)}, {"wanted": [-1, 2]}
    )
    with pytest.raises(UndecidedExtentError) as refused:
        imported(model, S)
    assert str(refused.value) == (
        "error: whether the 3*s elements of f32[s, 3] are a multiple of 2 depends on s (1..12)\n"
        "  in node 'y' (Reshape of ai.onnx version 18)"
    )


def test_a_slice_up_to_the_length_takes_that_much_of_a_constant() -> None:
    model = graph(
        [
            node("Shape", ["x"], ["length"], start=1),
            node("Slice", ["table", "first", "length", "axis"], ["part"]),
            node("Add", ["x", "part"], ["y"]),
        ],
        {"x": ("f", "b", "s")},
        {"table": np.arange(12, dtype=np.float32).reshape(1, 12), "first": [0], "axis": [1]},
    )
    module = check(model, [B, S], RUNS)
    assert mnemonics(module) == ["slice", "add"]


@pytest.mark.parametrize(
    ("first", "last", "step", "shown"),
    [
        (0, -1, 1, "s - 1"),
        (-1, 2**62, 1, "1"),
        (-1, -(2**62), -1, "s"),
        (1, 2**62, 2, "s // 2"),
        (0, 5, 1, "min(5, s)"),
        (-3, 2**62, 1, "-max(0, s - 3) + s"),
        (4, 1, -1, "-min(1, s - 1) + min(4, s - 1)"),
    ],
)
def test_bounds_of_slices_count_from_the_end_and_stop_there(
    first: int, last: int, step: int, shown: str
) -> None:
    model = graph(
        [node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])],
        {"x": ("f", 2, "s")},
        {"starts": [first], "ends": [last], "axes": [1], "steps": [step]},
    )
    module = check(model, [S], [{"s": n} for n in (1, 2, 3, 4, 6, 12)])
    assert shape_of(module) == f"f32[2, {shown}]"


def test_positions_stay_data_and_other_extents_numbers_of_the_run() -> None:
    model = graph(
        [
            node("Shape", ["past"], ["before"], start=1, end=2),
            node("Shape", ["x"], ["now"], start=1, end=2),
            node("Add", ["before", "now"], ["total"]),
            node("Squeeze", ["before", "axis"], ["first"]),
            node("Squeeze", ["total", "axis"], ["last"]),
            node("Range", ["first", "last", "one"], ["y"]),
            node("Mul", ["total", "total"], ["z"]),
        ],
        {"past": ("f", 2, "p"), "x": ("f", 2, "s")},
        {"axis": [0], "one": 1},
        ["y", "z"],
    )
    dims = [Dim("p", 0, 5), S]
    module = check(model, dims, [{"p": 0, "s": 1}, {"p": 5, "s": 1}, {"p": 3, "s": 12}])
    assert shape_of(module) == "i64[s]"
    assert mnemonics(module) == ["iota", "extents", "add", "extents"]


def test_an_expansion_by_a_guarded_shape_is_decided() -> None:
    """Exporters replace -1 by 1 in the shape to expand to."""
    model = graph(
        [
            node("Shape", ["x"], ["shape"]),
            node("ConstantOfShape", ["rank"], ["ones"], value=helper.make_tensor("v", 7, [1], [1])),
            node("Mul", ["ones", "minus"], ["negative"]),
            node("Equal", ["shape", "negative"], ["open"]),
            node("Where", ["open", "ones", "shape"], ["wanted"]),
            node("Expand", ["c", "wanted"], ["y"]),
        ],
        {"x": ("f", "b", "s")},
        {"rank": [2], "minus": -1, "c": np.float32([[1.5]])},
    )
    module = check(model, [B, S], RUNS)
    assert shape_of(module) == "f32[b, s]"
    assert mnemonics(module) == ["expand"]


def test_arithmetic_in_floats_is_exact() -> None:
    model = graph(
        [
            node("Shape", ["x"], ["shape"]),
            node("Cast", ["shape"], ["floats"], to=TensorProto.FLOAT),
            node("Mul", ["floats", "half"], ["halved"]),
            node("Floor", ["halved"], ["down"]),
            node("Cast", ["down"], ["wanted"], to=TensorProto.INT64),
            node("Expand", ["c", "wanted"], ["y"]),
        ],
        {"x": ("f", "s")},
        {"half": np.float32(2.5), "c": np.float32([1.5])},
    )
    assert shape_of(check(model, [S], [{"s": n} for n in (1, 2, 3, 12)])) == "f32[(5*s) // 2]"


def test_padding_to_a_multiple_is_an_expression() -> None:
    model = graph(
        [
            node("Shape", ["x"], ["n"]),
            node("Mod", ["n", "four"], ["over"]),
            node("Sub", ["four", "over"], ["lack"]),
            node("Mod", ["lack", "four"], ["added"]),
            node("Concat", ["zero", "added"], ["pads"], axis=0),
            node("Pad", ["x", "pads"], ["y"]),
        ],
        {"x": ("f", "s")},
        {"four": [4], "zero": [0]},
    )
    check(model, [S], [{"s": n} for n in (1, 3, 4, 5, 12)])


def test_splits_and_tiles_follow_the_extents() -> None:
    model = graph(
        [
            node("Split", ["x"], ["u", "v"], axis=1, num_outputs=2),
            node("Shape", ["x"], ["rows"], end=1),
            node("Concat", ["rows", "one"], ["counts"], axis=0),
            node("Tile", ["v", "counts"], ["w"]),
        ],
        {"x": ("f", "b", "s")},
        {"one": [1]},
        ["u", "w"],
    )
    check(model, [B, Dim("s", 2, 12, 2)], [{"b": 1, "s": 2}, {"b": 3, "s": 6}, {"b": 4, "s": 12}])


def test_a_broadcast_that_the_bounds_do_not_decide_names_node_extents_and_bounds() -> None:
    model = graph(
        [node("Add", ["x", "c"], ["y"])], {"x": ("f", "b", "s")}, {"c": np.ones((4, 1), np.float32)}
    )
    with pytest.raises(UndecidedExtentError) as refused:
        imported(model, B, S)
    assert str(refused.value).startswith(
        "error: add: whether b and 4 broadcast in lhs f32[b, s], rhs f32[4, 1] "
        "depends on b (1..4)\n"
        "  in node 'y' (Add of ai.onnx version 18)\n"
    )


def test_a_broadcast_that_fits_no_extent_is_a_mistake_of_the_model() -> None:
    model = graph(
        [node("Add", ["x", "c"], ["y"])], {"x": ("f", "s")}, {"c": np.ones(20, np.float32)}
    )
    with pytest.raises(AfterglowError) as refused:
        imported(model, Dim("s", 2, 12))
    assert not isinstance(refused.value, UndecidedExtentError)


def test_a_value_that_must_be_known_is_not_taken_at_its_largest() -> None:
    """Sizes of windows cannot follow the extents of a run."""
    model = graph(
        [
            node("Shape", ["x"], ["n"]),
            node("Squeeze", ["n"], ["size"]),
            node("HannWindow", ["size"], ["y"]),
        ],
        {"x": ("f", "s")},
    )
    with pytest.raises(UndecidedExtentError, match="depends on s"):
        imported(model, S)


def test_scales_of_a_resize_make_expressions_of_extents() -> None:
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    model = graph(
        [node("Resize", ["x", "", "scales"], ["y"], nearest_mode="floor", **attributes)],
        {"x": ("f", 1, 2, "b", "s")},
        {"scales": np.array([1, 1, 1.5, 2], np.float32)},
    )
    assert shape_of(check(model, [B, S], RUNS)) == "f32[1, 2, (3*b) // 2, 2*s]"


def test_a_resize_to_the_extents_of_another_value_has_the_scale_of_the_run() -> None:
    model = graph(
        [
            node("Shape", ["z"], ["sizes"]),
            node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
        ],
        {"x": ("f", 1, 2, 3, 4), "z": ("f", 1, 2, "b", "s")},
    )
    assert shape_of(check(model, [B, S], RUNS)) == "f32[1, 2, b, s]"


def test_a_scale_that_no_quotient_of_the_extent_is_is_refused() -> None:
    model = graph(
        [node("Resize", ["x", "", "scales"], ["y"])],
        {"x": ("f", "s")},
        {"scales": np.array([0.7071], np.float32)},
    )
    with pytest.raises(UndecidedExtentError) as refused:
        imported(model, Dim("s", 1, 1000))
    assert "rounded to single precision, depends on s (1..1000)" in str(refused.value)


def test_a_window_before_a_ranged_past_counts_from_the_past() -> None:
    """The number of keys before the first query is one of the run, not the largest."""
    model = graph(
        [node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"], is_causal=1)],
        {
            **dict.fromkeys("qkv", ("f", 1, 2, "s", 4)),
            **dict.fromkeys(("pk", "pv"), ("f", 1, 2, "p", 4)),
        },
        opset=23,
    )
    dims = [Dim("p", 1, 5), Dim("s", 1, 4)]
    check(model, dims, [{"p": 1, "s": 1}, {"p": 2, "s": 4}, {"p": 5, "s": 3}])


def test_frames_of_a_ranged_signal_are_as_many_as_fit() -> None:
    model = graph(
        [node("STFT", ["x", "step", "", "length"], ["y"])],
        {"x": ("f", "b", "s", 1)},
        {"step": 3, "length": 4},
    )
    module = check(model, [B, Dim("s", 4, 20)], [{"b": 1, "s": 4}, {"b": 2, "s": 11}])
    assert shape_of(module) == "f32[b, (s + 2) // 3 - 1, 3, 2]"


def test_places_of_maxima_are_counted_in_the_images_of_the_run() -> None:
    model = graph(
        [node("MaxPool", ["x"], ["m", "y"], kernel_shape=[2, 2], strides=[2, 2])],
        {"x": ("f", "b", 2, "s", 6)},
        {},
        ["y"],
    )
    check(model, [B, Dim("s", 2, 12, 2)], [{"b": 1, "s": 2}, {"b": 3, "s": 6}])


def test_a_loop_over_a_ranged_length_is_a_scan_of_that_length() -> None:
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["on"]),
            node("Gather", ["x", "i"], ["row"], axis=0),
            node("Add", ["total", "row"], ["sum"]),
            node("Identity", ["sum"], ["each"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("total", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("each", TensorProto.FLOAT, [3]),
        ],
    )
    model = graph(
        [
            node("Shape", ["x"], ["n"], end=1),
            node("Squeeze", ["n"], ["trips"]),
            node("Loop", ["trips", "yes", "zero"], ["last", "all"], body=body),
        ],
        {"x": ("f", "s", 3)},
        {"zero": np.zeros(3, np.float32), "yes": True},
        ["last", "all"],
    )
    module = check(model, [S], [{"s": 1}, {"s": 5}])
    assert shape_of(module, 1) == "f32[s, 3]"
    assert "scan" in mnemonics(module)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_by_copies_follow_the_extent(mode: str) -> None:
    model = graph(
        [node("Pad", ["x", "pads"], ["y"], mode=mode)],
        {"x": ("f", 2, "s")},
        {"pads": [0, 2, 0, 1]},
        opset=19,
    )
    module = imported(model, Dim("s", 3, 12))
    (pad,) = module.main.nodes
    builder = Builder(module.main, pad)
    module.main.replace(pad.result, pad.op.lower(builder, *pad.operands))
    for extent in (3, 4, 12):
        exact = module.bind({"s": extent})
        x = np.arange(2 * extent, dtype=np.float32).reshape(2, extent)
        (got,) = run_function(exact.main, [x])
        np.testing.assert_array_equal(got, np.pad(x, ((0, 0), (2, 1)), mode))


def test_resizing_by_a_scale_multiplies_ranged_extents() -> None:
    model = graph(
        [node("Resize", ["x", "", "scales"], ["y"], mode="nearest")],
        {"x": ("f", "b", 2, "s", "s")},
        {"scales": np.float32([1, 1, 2, 1.5])},
    )
    assert shape_of(check(model, [B, S], RUNS)) == "f32[b, 2, 2*s, (3*s) // 2]"


def test_a_scale_may_change_with_the_extents() -> None:
    model = graph(
        [node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest")],
        {"x": ("f", 1, 2, "s", 4)},
        {"sizes": [1, 2, 8, 8]},
    )
    check(model, [S], [{"s": n} for n in (1, 3, 8, 12)])
