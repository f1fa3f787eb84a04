"""Bindings that do not fit a model, and dimensions that are left free."""

from __future__ import annotations

import inspect

import numpy as np
import onnx
import pytest

from afterglow.frontends.onnx import Binding, UnboundDimensionsError, import_onnx
from afterglow.support.errors import UsageError
from afterglow.types.extent import Dim, ranged
from tests.errors.malformed import check
from tests.frontends.models import info, model, node


def relu(**parts: object) -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["y"])], **parts)


def two_inputs() -> onnx.ModelProto:
    """x: f32[batch, 3] and mask: f32[batch, length]."""
    inputs = (info("x", ("batch", 3)), info("mask", ("batch", "length")))
    return relu(inputs=inputs, outputs=(info("y", None),))


FREE = [
    (
        two_inputs(),
        Binding(),
        """
        error: the model has inputs with dynamic dimensions: 'x': f32[batch, 3], 'mask': f32[batch, length]
          help: bind them, for example dims={'batch': 1, 'length': 1} or shapes={'x': (1, 3), 'mask': (1, 1)}
        """,  # noqa: E501  as users see it
    ),
    (
        two_inputs(),
        Binding(shapes={"x": (8, 3)}),
        """
        error: the model has inputs with dynamic dimensions: 'mask': f32[batch, length]
          help: bind them, for example dims={'length': 1} or shapes={'mask': (8, 1)}
        """,
    ),
    (
        two_inputs(),
        Binding(dims={"batch": ranged(Dim("batch", 1, 8))}),
        """
        error: the model has inputs with dynamic dimensions: 'mask': f32[batch, length]
          help: bind them, for example dims={'length': 1}
        """,
    ),
    (
        relu(inputs=(info("x", (2, None)),)),
        Binding(),
        """
        error: the model has inputs with dynamic dimensions: 'x': f32[2, ?]
          help: bind them, for example shapes={'x': (2, 1)}
        """,
    ),
    (
        relu(inputs=(info("x", (-1, 3)),)),
        Binding(),
        """
        error: the model has inputs with dynamic dimensions: 'x': f32[?, 3]
          help: bind them, for example shapes={'x': (1, 3)}
        """,
    ),
    (
        relu(inputs=(info("x", None),)),
        Binding(),
        """
        error: the model has inputs with dynamic dimensions: 'x': f32[…]
          help: bind them, for example shapes={'x': (…)}
        """,
    ),
]


@pytest.mark.parametrize(("source", "binding", "text"), FREE)
def test_free_dimensions_are_listed(source: onnx.ModelProto, binding: Binding, text: str) -> None:
    check(source, UnboundDimensionsError, inspect.cleandoc(text), binding)


def test_a_name_that_means_several_extents_binds_no_other_input() -> None:
    source = relu(
        inputs=tuple(info(name, ("width", 3)) for name in ("x", "y1", "z")),
        outputs=(info("y", None),),
    )
    text = """
        error: the model has inputs with dynamic dimensions: 'z': f32[width, 3]
          help: bind them, for example shapes={'z': (1, 3)}
        """
    binding = Binding(shapes={"x": (4, 3), "y1": (5, 3)})
    check(source, UnboundDimensionsError, inspect.cleandoc(text), binding)


def test_the_error_names_what_is_free() -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        import_onnx(two_inputs(), Binding(dims={"batch": 4}))
    assert caught.value.inputs == ("mask",)
    assert caught.value.dims == ("length",)


WRONG = {
    "error: the model has no input 'z': it has 'x'": Binding(shapes={"z": (2, 3)}),
    "error: input 'x': f32[2, 3] cannot have the shape (2,)": Binding(shapes={"x": (2,)}),
    "error: input 'x': f32[2, 3] cannot have the shape (2, 4)": Binding(shapes={"x": (2, 4)}),
    "error: input 'x' cannot have the shape (2, -3)": Binding(shapes={"x": (2, -3)}),
    "error: input 'x' cannot have the shape (2, 1.5)": Binding(shapes={"x": (2, 1.5)}),
    "error: no input has a dimension 'batch'": Binding(dims={"batch": 4}),
    "error: the model has no input 'v': it has 'x'": Binding(values={"v": np.ones(3)}),
    "error: input 'x': f32[2, 3] cannot hold float64": Binding(values={"x": np.ones((2, 3))}),
    "error: input 'x': f32[2, 3] cannot hold datetime64[s]": Binding(
        values={"x": np.zeros((2, 3), "M8[s]")}
    ),
    "error: input 'x': f32[2, 3] cannot have the shape (3, 2)": Binding(
        values={"x": np.ones((3, 2), np.float32)}
    ),
    """
    error: 2 bindings do not fit the model
        the model has no input 'z': it has 'x'
        input 'x': f32[2, 3] cannot have the shape (3, 3)
    """: Binding(shapes={"z": (1,), "x": (3, 3)}),
}


@pytest.mark.parametrize(("text", "binding"), WRONG.items())
def test_bindings_that_contradict_the_model(text: str, binding: Binding) -> None:
    check(relu(), UsageError, inspect.cleandoc(text), binding)


CONTRADICTORY = {
    "error: dimension 'batch' is 4, but 5 in input 'mask'": Binding(
        dims={"batch": 4}, shapes={"x": (4, 3), "mask": (5, 2)}
    ),
    "error: dimension 'batch' is 4, but 5 in input 'x'": Binding(
        dims={"batch": 4}, shapes={"x": (5, 3)}
    ),
    "error: dimension 'length' cannot be -1": Binding(dims={"batch": 1, "length": -1}),
    "error: no input has a dimension 'size': there are 'batch', 'length'": Binding(
        dims={"size": 1}
    ),
    "error: input 'x' is too large: f32[1099511627776, 3] takes 13,194,139,533,312 bytes\n"
    "  help: give smaller extents: at most 1,099,511,627,776 bytes are possible": (
        Binding(dims={"batch": 2**40, "length": 1})
    ),
}


@pytest.mark.parametrize(("text", "binding"), CONTRADICTORY.items())
def test_bindings_that_contradict_each_other(text: str, binding: Binding) -> None:
    check(two_inputs(), UsageError, text, binding)
