"""Functions with gradients, as users ask for them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import Function, Value, print_module, run_function, verify_module
from afterglow.support.errors import UsageError

TEXT = """
const @weight : f32[3] = [1, 2, 3]
state @bias : f32[]
func @main(%x: f32[3], %n: i64[]) {
  %scaled = mul(%x, @weight) : f32[3]
  %moved = add(%scaled, @bias) : f32[3]
  %loss = reduce_sum(%moved) {axes = (0,), keepdims = false} : f32[]
  return %moved as "scores", %loss
}
"""


@pytest.fixture
def function() -> Function:
    return ag.parse_module(TEXT).main


def names(f: Function) -> list[str]:
    return [output.name for output in f.outputs]


def test_gradients_follow_the_outputs(function: Function) -> None:
    before = print_module(function.module)
    f = ag.differentiate(function, "loss")
    verify_module(f.module)
    assert names(f) == ["scores", "loss", "gradient.x"]
    assert f.module.main is f
    assert print_module(function.module) == before


def test_constants_and_states_are_variables_too(function: Function) -> None:
    f = ag.differentiate(function, "loss", ["w*", "bias"])
    assert names(f)[2:] == ["gradient.bias", "gradient.weight"]
    values: list[Value] = [function.inputs[0], function.module.constants["weight"]]
    by_value = ag.differentiate(function, function.outputs[1].value, values)
    assert names(by_value)[2:] == ["gradient.x", "gradient.weight"]


def test_the_only_output_is_the_loss(function: Function) -> None:
    del function.outputs[0]
    f = ag.differentiate(function)
    states = {"bias": np.zeros((), np.float32)}
    _, grad = run_function(f, [np.ones(3, np.float32), np.array(1)], states)
    np.testing.assert_array_equal(grad, [1, 2, 3])


def test_a_gradient_that_does_not_depend_on_the_variable_is_zero(function: Function) -> None:
    function.input("unused", function.inputs[0].type)
    f = ag.differentiate(function, "loss", "unused")
    producer = f.outputs[-1].value.producer
    assert producer is not None
    assert producer.op.mnemonic == "fill"


def test_what_was_differentiated_can_be_again(function: Function) -> None:
    f = ag.differentiate(ag.differentiate(function, "loss"), "loss", "weight")
    assert names(f)[2:] == ["gradient.x", "gradient.weight"]


@pytest.mark.parametrize(
    ("loss", "wrt", "text"),
    [
        (
            None,
            None,
            """
            error: @main has 2 outputs, and one of them must be the loss
              help: name one of scores, loss
            """,
        ),
        (
            "lost",
            None,
            """
            error: no output of @main is called 'lost'
              help: there are loss …
            """,
        ),
        (
            "scores",
            None,
            """
            error: the loss must be a single float, and output 'scores' is f32[3]
              help: reduce it to one first, with reduce_mean or reduce_sum
            """,
        ),
        (
            "loss",
            "wieght",
            """
            error: no input, constant or state of @main is called 'wieght'
              help: there are weight …
            """,
        ),
        (
            "loss",
            ["x", "n"],
            """
            error: 'n' has no gradient: it is i64[]
              help: differentiate by what holds floats
            """,
        ),
        (
            "loss",
            5,
            """
            error: wrt must be names or values to differentiate by, got 5
              help: there are x, n, bias, weight
            """,
        ),
        (
            5,
            None,
            """
            error: loss must be the name of an output or its value, got 5
              help: there are scores, loss
            """,
        ),
        (
            Value("y", ag.TensorType.of(np.zeros(2))),
            None,
            """
            error: %y is no output of @main
              help: add it to the outputs, or name one of them
            """,
        ),
    ],
)
def test_what_is_not_there_is_refused(
    function: Function, loss: str | Value | None, wrt: str | list[str] | None, text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        ag.differentiate(function, loss, wrt)
    assert str(caught.value) == inspect.cleandoc(text)


def test_a_module_is_no_function() -> None:
    with pytest.raises(UsageError) as caught:
        ag.differentiate(ag.Module())  # type: ignore[arg-type]
    assert caught.value.what == "a function of a module is differentiated, got a Module"
