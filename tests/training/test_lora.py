"""Low-rank adaptation: what is added, and that merging changes no output."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow import nn
from afterglow.graph.evaluate import run_function
from afterglow.training.lora import LoRA
from afterglow.training.parameters import with_values
from afterglow.training.step import Recipe, training_step
from afterglow.types import Array


def net() -> ag.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).module({"x": (4, 6)})


def output(module: ag.Module) -> Array:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    return run_function(module.main, [x])[0]


def test_factors_begin_by_adding_nothing() -> None:
    module, adapted = LoRA("*", rank=2).adapt(net())
    assert adapted == {"0.weight": True, "2.weight": True}
    assert module.constants["0.weight.lora_a"].type.shape == (6, 2)
    assert module.constants["2.weight.lora_b"].type.shape == (2, 3)
    assert np.array_equal(output(module), output(net()))


def test_a_merged_model_gives_the_outputs_of_the_adapted_one() -> None:
    lora = LoRA("2.*", rank=2, alpha=6)
    module, adapted = lora.adapt(net())
    rng = np.random.default_rng(1)
    values = {name: constant.data for name, constant in module.constants.items()}
    values["2.weight.lora_b"] = rng.standard_normal((2, 3)).astype(np.float32)
    merged = lora.merge(adapted, values)
    kept = {name: value for name, value in merged.items() if name in net().constants}
    assert np.allclose(
        output(with_values(net(), kept)), output(with_values(module, values)), atol=1e-5
    )
    assert not np.allclose(output(net()), output(with_values(net(), kept)), atol=1e-2)


def test_only_factors_train() -> None:
    module, _ = LoRA("*", rank=2).adapt(net())
    recipe = Recipe(ag.optim.MSE(), ag.optim.SGD(lr=0.1), trainable=("*.lora_a", "*.lora_b"))
    step = training_step(module, recipe)
    assert {p.name for p in step.parameters} == {
        "0.weight.lora_a",
        "0.weight.lora_b",
        "2.weight.lora_a",
        "2.weight.lora_b",
    }


def test_a_pattern_without_a_product_is_an_error() -> None:
    with pytest.raises(ag.UsageError) as caught:
        LoRA("*.bias").adapt(net())
    assert str(caught.value) == (
        "error: no weight of a product matches '*.bias'\n  help: there are 0.weight, 2.weight"
    )
