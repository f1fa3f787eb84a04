"""Functions, branches and loops that cannot be imported."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from afterglow.support.errors import (
    AfterglowError,
    MemoryLimitError,
    ModelError,
    UnsupportedError,
)
from tests.errors.malformed import Cases, Made, check
from tests.frontends.models import BOOL, INT64, body, info, model, node

CASES = Cases()
refused = CASES.refused


def relu(x: str = "x", y: str = "y") -> onnx.NodeProto:
    return node("Relu", [x], [y])


def function(
    name: str, nodes: list[onnx.NodeProto], inputs: tuple[str, ...] = ("x",)
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, list(inputs), ["y"], nodes, opsets)


def call(name: str, x: str = "x", y: str = "y", label: str = "") -> onnx.NodeProto:
    return node(name, [x], [y], domain="local", name=label)


@refused(
    ModelError,
    """
    error: the function calls itself: local.F version 1 -> local.G version 1 -> local.F version 1
      in node 'y' in function local.G of 'start' in function local.F of 'start' (F of local version 1)
    """,  # noqa: E501  as users see it
)
def functions_that_call_each_other() -> onnx.ModelProto:
    functions = [function("F", [call("G")]), function("G", [call("F")])]
    return model([call("F", label="start")], functions=functions)


@refused(ModelError, "error: the function local.F is defined twice")
def two_functions_with_one_name() -> onnx.ModelProto:
    return model([call("F")], functions=[function("F", [relu()])] * 2)


@refused(
    ModelError,
    """
    error: it has 2 inputs, its function takes 1
      in node 'start' (F of local version 1)
    """,
)
def a_call_with_too_many_inputs() -> onnx.ModelProto:
    start = node("F", ["x", "x"], ["y"], domain="local", name="start")
    return model([start], functions=[function("F", [relu()])])


@refused(
    ModelError,
    """
    error: ai.onnx version 17 has no such op
      in node 'inner' in function local.F of 'start' (Frobnicate of ai.onnx version 17)
    """,
)
def an_unknown_op_in_a_function() -> onnx.ModelProto:
    inner = node("Frobnicate", ["x"], ["y"], name="inner")
    return model([call("F", label="start")], functions=[function("F", [inner])])


@refused(
    ModelError,
    """
    error: the name 'y' is not defined
      in node 'start' (F of local version 1)
    """,
)
def a_function_that_does_not_produce_its_output() -> onnx.ModelProto:
    return model([call("F", label="start")], functions=[function("F", [relu("x", "z")])])


@refused(
    ModelError,
    """
    error: graphs and functions are nested more than 64 deep
      in node 'y' in function local.F63 of 'start' in function local.F62 of 'start' in … in function local.F0 of 'start' (F64 of local version 1)
    """,  # noqa: E501  as users see it
)
def functions_nested_too_deep() -> onnx.ModelProto:
    functions = [function(f"F{i}", [call(f"F{i + 1}")]) for i in range(80)]
    return model([call("F0", label="start")], functions=[*functions, function("F80", [relu()])])


@refused(
    UnsupportedError,
    "error: the model unfolds into more than 100,000 nodes",
)
def functions_that_unfold_without_end() -> onnx.ModelProto:
    functions = [
        function(f"F{i}", [call(f"F{i + 1}", "x", "a"), call(f"F{i + 1}", "a", "y")])
        for i in range(40)
    ]
    return model([call("F0")], functions=[*functions, function("F40", [relu()])])


def choose(**branches: onnx.GraphProto) -> onnx.ModelProto:
    condition = info("c", (), BOOL)
    return model([node("If", ["c"], ["y"], name="choose", **branches)], inputs=("x", condition))


@refused(
    ModelError,
    """
    error: attribute 'else_branch' is missing
      in node 'choose' (If of ai.onnx version 17)
    """,
)
def a_choice_without_other_branch() -> onnx.ModelProto:
    return choose(then_branch=body([relu("x", "t")], (), ("t",)))


@refused(
    ModelError,
    """
    error: ai.onnx version 17 has no such op
      in node 'inner' in else_branch of 'choose' (Frobnicate of ai.onnx version 17)
    """,
)
def an_unknown_op_in_a_branch() -> onnx.ModelProto:
    inner = node("Frobnicate", ["x"], ["t"], name="inner")
    return choose(
        then_branch=body([relu("x", "t")], (), ("t",)), else_branch=body([inner], (), ("t",))
    )


@refused(
    UnsupportedError,
    """
    error: shapes in the model depend on the value of input 'c'
      help: bind it when compiling: values={name: array}, or a list of arrays for a sequence
    """,
)
def branches_of_different_types() -> onnx.ModelProto:
    return choose(
        then_branch=body([relu("x", "t")], (), ("t",)),
        else_branch=body([node("Shape", ["x"], ["t"])], (), ("t",)),
    )


COUNTED = (info("i", (), INT64), info("go", (), BOOL), "a")


def loop(inputs: list[str], inner: onnx.GraphProto) -> onnx.ModelProto:
    return model([node("Loop", inputs, ["y"], name="loop", body=inner)])


@refused(
    ModelError,
    """
    error: body takes 1 inputs, it is given 3
      in node 'loop' (Loop of ai.onnx version 17)
    """,
)
def a_loop_whose_body_takes_other_inputs() -> onnx.ModelProto:
    return loop(["", "", "x"], body([relu("a", "b")], ("a",), ("a", "b")))


@refused(
    ModelError,
    """
    error: body returns 0 values, but 1 are carried
      in node 'loop' (Loop of ai.onnx version 17)
    """,
)
def a_loop_whose_body_returns_too_little() -> onnx.ModelProto:
    return loop(["", "", "x"], body([], COUNTED, ("go",)))


@refused(
    ModelError,
    """
    error: the loop never ends: it has no limit, and its condition always holds
      in node 'loop' (Loop of ai.onnx version 17)
    """,
)
def a_loop_without_end() -> onnx.ModelProto:
    return loop(["", "", "x"], body([relu("a", "b")], COUNTED, ("go", "b")))


@refused(
    MemoryLimitError,
    """
    error: a result is too large: f32[268435456, 3] takes 3,221,225,472 bytes, \
the limit is 2,147,483,648
      in node 'double' in body of 'loop' (Concat of ai.onnx version 17)
      help: allow more with max_memory, or --max-memory
    """,
)
def a_loop_that_grows_without_end() -> onnx.ModelProto:
    double = node("Concat", ["a", "a"], ["b"], name="double", axis=0)
    return loop(["", "", "x"], body([double], COUNTED, ("go", "b")))


@refused(
    ModelError,
    """
    error: it cannot scan 3 of its 1 inputs
      in node 'scan' (Scan of ai.onnx version 17)
    """,
)
def a_scan_of_more_inputs_than_there_are() -> onnx.ModelProto:
    inner = body([relu("a", "b")], ("a",), ("b",))
    return model([node("Scan", ["x"], ["y"], name="scan", num_scan_inputs=3, body=inner)])


@pytest.mark.parametrize(("make", "kind", "text"), CASES)
def test_the_model_is_refused(make: Made, kind: type[AfterglowError], text: str) -> None:
    check(make(), kind, text)
