from __future__ import annotations

import numpy as np
import onnx
import pytest

import afterglow as ag
from afterglow.report.compare import comparer
from afterglow.report.compare.judge import Verdict
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.tables import plain_text
from tests.frontends.models import body, info, model, node
from tests.report.compare.planted import (
    WEIGHTS,
    network,
    plant_code,
    plant_pass,
    wrong_if_fused,
    wrong_root,
)

OTHER = network(w2=WEIGHTS["w2"] + np.eye(8, dtype=np.float32))


def names(report: ag.CompareReport) -> list[str]:
    return [tensor.name for tensor in report.tensors]


def small(op: str, **attributes: object) -> onnx.ModelProto:
    """y = op(x), with a node before and behind it."""
    nodes = [
        node("Abs", ["x"], ["a"]),
        node(op, ["a"], ["b"], name="suspect", **attributes),
        node("Abs", ["b"], ["y"]),
    ]
    return model(nodes, inputs=[info("x", (2, 3))], outputs=[info("y", (2, 3))])


@pytest.mark.parametrize("ref", ["onnxruntime", "reference", "interpreter"])
def test_every_tensor_agrees_with_each_reference(ref: str) -> None:
    report = ag.compare(network(), ref)
    assert report.agrees
    assert report.first is None
    assert names(report)[0] == "product"
    assert names(report)[-1] == "y"
    assert len(names(report)) == 10
    assert all(tensor.difference.relative < 1e-5 for tensor in report.tensors)


def test_a_changed_weight_is_found_at_the_node_that_reads_it() -> None:
    report = ag.compare(network(), OTHER)
    assert not report.agrees
    assert report.first is not None
    assert (report.first.tensor.name, report.first.tensor.node) == ("mixed", "second")
    assert report.first.alone is True
    assert [tensor.name for tensor in report.differing] == ["mixed", "sum", "y"]


def test_tensors_are_compared_in_groups_that_bound_memory(monkeypatch) -> None:
    monkeypatch.setattr(comparer, "GROUP_BYTES", 3 * 4 * 8 * 4)
    report = ag.compare(network(), OTHER)
    assert len(report.tensors) == 10
    assert report.first is not None
    assert report.first.tensor.name == "mixed"


def test_the_pass_that_is_wrong_is_named(monkeypatch) -> None:
    plant_pass(monkeypatch, wrong_root)
    report = ag.compare(network(), "interpreter", bisect_passes=True)
    assert report.first is not None
    assert report.first.tensor.node == "root"
    assert (report.passes.where, report.passes.name) == ("pass", "simplify-clips")
    assert report.passes.run == 1
    assert f"number {report.passes.number} of {report.passes.total}" in str(report)


def test_an_error_that_vanishes_with_more_outputs_is_found_by_prefixes(monkeypatch) -> None:
    plant_pass(monkeypatch, wrong_if_fused)
    report = ag.compare(network(), "interpreter", bisect_passes=True)
    assert report.first is not None
    assert report.first.tensor.name == "turned"
    assert "the error is gone if intermediate tensors are returned" in report.first.found_by
    assert report.passes.name == "simplify-clips"


def test_wrong_code_is_named_when_all_passes_agree(monkeypatch) -> None:
    plant_code(monkeypatch)
    report = ag.compare(network(), "interpreter", bisect_passes=True, cache=False)
    assert report.first is not None
    assert report.first.tensor.node == "grow"
    assert report.passes.where == "code"
    assert any("exp" in line for line in report.passes.details)


def test_a_difference_before_all_passes_is_one_of_the_model() -> None:
    report = ag.compare(network(), OTHER, bisect_passes=True)
    assert report.passes.where == "import"


def test_nan_is_named_where_it_comes_first() -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    ref = {"x": x, "a": x, "b": np.log(x), "y": np.log(x)}
    ref["b"] = np.where(x == 2, np.nan, ref["b"])
    report = ag.compare(small("Log"), ref)
    assert report.first is not None
    assert report.first.tensor.name == "b"
    assert report.first.tensor.note == "none; in the reference 1 NaN"


def test_nan_in_the_same_places_is_said_and_agrees() -> None:
    x = np.array([[1, -2, 3], [4, 5, 6]], np.float32)
    nodes = [node("Sqrt", ["x"], ["r"]), node("Abs", ["r"], ["y"])]
    report = ag.compare(model(nodes), "onnxruntime", {"x": x})
    assert report.agrees
    assert report.tensors[0].note == "1 NaN, first at [0, 1]; in the reference 1 NaN"


def test_nothing_but_nan_on_both_sides_is_no_agreement() -> None:
    x = np.full((2, 3), -1, np.float32)
    report = ag.compare(model([node("Sqrt", ["x"], ["y"])]), "onnxruntime", {"x": x})
    assert not report.agrees
    assert report.tensors[0].verdict is Verdict.UNDECIDED


def test_an_infinity_differs_from_a_number_and_agrees_with_itself() -> None:
    x = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
    with np.errstate(divide="ignore"):
        right = {"b": 1 / x}
    report = ag.compare(small("Reciprocal"), right, {"x": x})
    assert report.agrees
    assert report.tensors[0].note == "1 infinite, first at [0, 0]; in the reference 1 infinite"
    wrong = {"b": np.where(x == 0, 9, right["b"])}
    report = ag.compare(small("Reciprocal"), wrong, {"x": x})
    assert report.first is not None
    assert report.first.values == "at [0, 0] it is inf instead of 9"


def test_some_tensors_of_a_dump_are_enough_and_its_inputs_are_used() -> None:
    x = np.ones((4, 8), np.float64)
    product = x @ WEIGHTS["w1"]
    ref = {"x": x.astype(np.float32), "bent": np.tanh(product), "size": abs(np.tanh(product)) + 1}
    report = ag.compare(network(), ref)
    assert names(report) == ["bent", "size"]
    assert report.first is not None
    assert report.first.tensor.name == "size"
    assert report.first.alone is True


def test_names_that_the_model_lacks_are_listed() -> None:
    with pytest.raises(UsageError, match="has no tensor of the model") as caught:
        ag.compare(network(), {"rooot": np.zeros(3, np.float32)})
    assert caught.value.excerpt[0] == "it has 'rooot'"
    assert "'rooot': do you mean 'root'?" in caught.value.excerpt
    some = {"other": np.zeros(3), "root": np.zeros((4, 8))}
    with pytest.warns(ag.AfterglowWarning, match="1 of 2 arrays are no tensors of the model"):
        ag.compare(network(), some)


def test_another_shape_differs() -> None:
    report = ag.compare(network(), {"root": np.zeros((8, 4), np.float32)})
    assert report.first is not None
    assert report.first.tensor.difference.mismatch == "shape (4, 8) instead of (8, 4)"


def test_integers_are_judged_by_their_noise() -> None:
    samples = [{"x": RANDOM.standard_normal((4, 8)).astype(np.float32)} for _ in range(4)]
    profile = ag.profile(network(), samples)
    report = ag.compare(
        network(), "interpreter", samples[0], precision="int8", profile=profile, l2=0.5
    )
    assert report.agrees
    assert report.judged_by == "tolerance 0.5 relative L2 (6 dB), 1e-06 absolute"
    strict = ag.compare(
        network(), "interpreter", samples[0], precision="int8", profile=profile, l2=1e-6
    )
    assert strict.first is not None
    default = ag.compare(network(), "interpreter", precision="int8", profile=profile)
    assert default.judged_by.startswith("tolerance 0.1 relative L2 (20 dB)")


RANDOM = np.random.default_rng(1)


def branches() -> onnx.ModelProto:
    """An If around a node, and a Loop that adds up."""
    bodies = {
        "then_branch": body([node("Exp", ["x"], ["t"])], [], ["t"]),
        "else_branch": body([node("Neg", ["x"], ["e"])], [], ["e"]),
    }
    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0),
        node("Greater", ["total", "zero"], ["is"]),
        node("If", ["is"], ["branch"], name="choose", **bodies),
        node("Abs", ["branch"], ["y"]),
    ]
    return model(nodes, constants={"zero": np.float32(0)})


def test_nodes_in_bodies_are_said_not_to_be_compared() -> None:
    report = ag.compare(branches(), "onnxruntime")
    assert report.agrees
    assert names(report) == ["total", "is", "branch", "y"]
    assert report.remarks == ["not compared one by one: 2 nodes in bodies of 'choose' (If)"]
    wrong = ag.compare(branches(), {"branch": np.zeros((2, 3), np.float32)})
    assert wrong.first is not None
    assert wrong.first.body_nodes == 2


def test_ranged_dimensions_are_compared_by_one_program() -> None:
    nodes = [node("Exp", ["x"], ["e"]), node("Softmax", ["e"], ["y"])]
    made = model(nodes, inputs=[info("x", ("n", 3))], outputs=[info("y", ("n", 3))])
    x = np.ones((5, 3), np.float32)
    report = ag.compare(made, "onnxruntime", {"x": x}, dims={"n": (1, 8)})
    assert report.agrees
    assert names(report) == ["e", "y"]
    wrong = ag.compare(made, {"y": x}, {"x": x}, dims={"n": (1, 8)}, bisect_passes=True, rtol=1e-4)
    assert wrong.passes.where == "import"


def test_a_compiled_model_is_compared_by_its_outputs() -> None:
    compiled = ag.compile(network())
    report = ag.compare(compiled, OTHER)
    assert names(report) == ["y"]
    assert not report.agrees
    assert ag.compare(network(), compiled).agrees
    with pytest.raises(UsageError, match="interpreter cannot run it"):
        ag.compare(compiled, "interpreter")
    with pytest.raises(UsageError, match="neither passes nor nodes"):
        ag.compare(compiled, OTHER, bisect_passes=True)


def test_a_module_is_compared_by_its_outputs() -> None:
    module = ag.import_model(network())
    x = np.ones((4, 8), np.float32)
    y = ag.compile(network()).run(None, {"x": x})[0]
    report = ag.compare(module, {"y": y}, {"x": x})
    assert names(report) == ["y"]
    assert report.agrees
    with pytest.raises(UnsupportedError, match="only ONNX models can be reduced"):
        ag.compare(module, {"y": y + 1}, {"x": x}, reduce="small.onnx")


def test_rounding_that_adds_up_is_no_fault_of_a_node() -> None:
    x = np.full((2, 3), 3, np.float32)
    off = x * np.float32(1 + 5e-5)
    report = ag.compare(small("Exp"), {"x": x, "a": off, "b": np.exp(off)})
    assert [tensor.verdict for tensor in report.tensors] == [Verdict.AGREES, Verdict.DRIFTS]
    assert report.agrees
    assert report.remarks[0].startswith("1 drift: rounding adds up beyond the tolerance")


def test_a_function_may_judge() -> None:
    def check(actual: np.ndarray, expected: np.ndarray, name: str) -> bool:
        return name != "y" or bool((actual.argmax(-1) == expected.argmax(-1)).all())

    report = ag.compare(network(), OTHER, check=check)
    assert report.judged_by == "check"
    assert all(tensor.verdict is Verdict.AGREES for tensor in report.tensors[:-1])
    with pytest.raises(UsageError, match="returned 3 for tensor"):
        ag.compare(network(), check=lambda actual, expected: 3)
    with pytest.raises(UsageError, match="failed on tensor 'y': ZeroDivisionError"):
        ag.compare(network(), check=lambda actual, expected: 1 / 0)
    with pytest.raises(UsageError, match="takes 1 arguments"):
        ag.compare(network(), check=lambda actual: True)
    with pytest.raises(UsageError, match="a check decides alone"):
        ag.compare(network(), check=check, rtol=1.0)


def test_fewer_bits_are_compared_with_float32_the_worst_first() -> None:
    report = ag.compare(network(), "float32", precision="bfloat16")
    assert report.reference == "float32"
    assert report.agrees
    errors = [tensor.difference.l2 for tensor in report.worst]
    assert errors == sorted(errors, reverse=True)
    assert 1e-4 < errors[0] < 2e-2
    first = next(line for line in plain_text(report.table(worst=True)).splitlines()[2:])
    assert first.split()[0] == report.worst[0].name


def test_float32_is_not_compared_with_itself() -> None:
    with pytest.raises(UsageError, match="compiled in float32 itself"):
        ag.compare(network(), "float32")


def test_an_unknown_reference_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no reference 'ort'"):
        ag.compare(network(), "ort")
    with pytest.raises(UsageError, match="largest error or by its relative L2 error"):
        ag.compare(network(), rtol=1.0, l2=1.0)
