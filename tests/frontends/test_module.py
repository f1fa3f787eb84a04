"""Modules of the graph IR as sources, with shapes that are exact or have free dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow import nn
from afterglow.frontends.base import UnboundDimensionsError


@pytest.fixture(scope="module")
def module() -> ag.Module:
    return nn.Linear(3, 2).module({"x": (None, "rows", 3)})


def test_free_dimensions_are_bound_by_calls(module: ag.Module) -> None:
    model = ag.compile(module, backend="interpreter")
    assert [str(info) for info in (*model.inputs, *model.outputs)] == [
        "x: f32[batch, rows, 3]",
        "y: f32[batch, rows, 2]",
    ]
    x = np.arange(60, dtype=np.float32).reshape(5, 4, 3)
    whole = model(x)
    np.testing.assert_allclose(model(x[:2, 1:]), whole[:2, 1:], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"dims": {"batch": 2, "rows": 4}}, "x: f32[2, 4, 3]"),
        ({"shapes": {"x": (2, 4, 3)}}, "x: f32[2, 4, 3]"),
        ({"dims": {"batch": 2, "rows": (1, 8)}}, "x: f32[2, rows, 3]"),
    ],
    ids=["by name", "by shape", "by bounds"],
)
def test_free_dimensions_are_bound_by_options(
    module: ag.Module, options: dict[str, Any], shown: str
) -> None:
    model = ag.compile(module, backend="interpreter", **options)
    assert str(model.inputs[0]) == shown
    assert model(np.ones((2, 4, 3), np.float32)).shape == (2, 4, 2)


def test_a_module_is_imported_with_its_dimensions_bound(module: ag.Module) -> None:
    bound = ag.import_model(module, dims={"batch": 2, "rows": 4})
    assert str(bound.main.outputs[0].value.type) == "f32[2, 4, 2]"
    with pytest.raises(UnboundDimensionsError) as raised:
        ag.import_model(module, dims={"batch": 2})
    assert str(raised.value) == (
        "error: the module has inputs with free dimensions: x: f32[batch, rows, 3]\n"
        "  help: bind them, for example dims={'rows': 1}"
    )


def test_a_profile_of_a_module_with_free_dimensions_serves_any_extents(module: ag.Module) -> None:
    rng = np.random.default_rng(0)
    samples = [{"x": rng.standard_normal((2, rows, 3)).astype(np.float32)} for rows in (4, 5)]
    profile = ag.profile(module, samples)
    model = ag.compile(module, backend="interpreter", precision="int8", profile=profile)
    x = samples[0]["x"][:1, :3]
    exact = ag.compile(module, backend="interpreter")(x)
    np.testing.assert_allclose(model(x), exact, atol=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dims": {"b": 3}},
            "error: no input has a dynamic dimension 'b': there are 'batch', 'rows'",
        ),
        ({"dims": {"batch": 0}}, "error: dimension 'batch' is 0, out of 1..2147483647"),
        ({"shapes": {"x": (1, 2, 4)}}, "error: input 'x' is f32[batch, rows, 3], not (1, 2, 4)"),
        ({"shapes": {"z": (1, 2, 4)}}, "error: no input 'z'\n  help: there are x"),
        (
            {"dims": {"batch": 3}, "shapes": {"x": (1, 2, 3)}},
            "error: dimension 'batch' is bound to 3 and to 1",
        ),
        (
            {"values": {"x": np.ones(3)}},
            "error: a module has static shapes: there are no values to bind",
        ),
    ],
    ids=["name", "bounds", "shape", "input", "contradiction", "values"],
)
def test_bindings_that_do_not_fit_are_refused(
    module: ag.Module, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ag.UsageError) as raised:
        ag.import_model(module, **options)
    assert str(raised.value) == message


def test_a_module_with_exact_shapes_has_nothing_to_bind() -> None:
    exact = nn.ReLU().module({"x": (2, 3)})
    with pytest.raises(ag.UsageError, match="static shapes: there is nothing to bind"):
        ag.import_model(exact, dims={"batch": 3})
