"""Optimizers against PyTorch's numbers, and what users may not choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from afterglow.graph import Builder, Function, run_function
from afterglow.ops import optimizer as ops
from afterglow.ops.elementwise import Add, scalar
from afterglow.optim import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSProp, optimizers, rate_at
from afterglow.support.errors import UsageError
from afterglow.types import DType, TensorType
from afterglow.types.dtype import f64, i64

WEIGHT = (1.0, -2.0, 0.5)
GRADIENTS = ((0.5, -1.0, 0.25), (-0.25, 0.5, 2.0), (1.0, 0.125, -0.5))
AFTER_THREE_STEPS = [
    (SGD(), (0.99875, -1.999625, 0.49825)),
    (SGD(lr=0.1, weight_decay=0.1), (0.846044, -1.904588, 0.312647)),
    (SGD(0.1, 0.9), (0.812, -1.8365, 0.10225)),
    (SGD(0.1, 0.9, 0.5), (0.83825, -1.78275, 0.26725)),
    (SGD(0.1, 0.9, nesterov=True, weight_decay=0.01), (0.698189208, -1.80012842, -0.0360132709)),
    (Adam(), (0.998075551, -1.9986001, 0.497716119)),
    (Adam(0.1, (0.8, 0.9), 1e-3, 0.1), (0.784840435, -1.82303935, 0.270145988)),
    (AdamW(), (0.998045574, -1.99854013, 0.497701148)),
    (AdamW(0.1, (0.8, 0.9), 1e-3, 0.1), (0.784078245, -1.81394716, 0.26176664)),
    (Adagrad(), (0.98574342, -1.99558325, 0.482484938)),
    (Adagrad(0.1, 0.5, 0.1, 1e-3), (0.873887667, -1.91406045, 0.345436156)),
    (RMSProp(), (0.857427378, -1.95611209, 0.32495776)),
    (RMSProp(0.1, 0.9, 1e-3, 0.1, 0.5, True), (0.268621389, -1.544127, -0.492043525)),
    (RMSProp(0.1, centered=True), (-0.435541872, -1.55657697, -1.26084154)),
    (RMSProp(0.1, momentum=0.9), (-1.73161402, -0.255232992, -3.85354047)),
]
"""Made by PyTorch 2.13 in double precision."""


def step_of(optimizer: Optimizer, dtype: DType = f64, shape: tuple[int, ...] = (3,)) -> Function:
    """One step of one weight, which is state like the slots and the number of the step."""
    f = Function("main")
    b = Builder(f)
    type = TensorType(dtype, shape)
    gradient, lr = f.input("gradient", type), f.input("lr", TensorType(dtype, ()))
    weight, step = f.module.state("weight", type), f.module.state("step", TensorType(i64, ()))
    slots = [f.module.state(name, type) for name in optimizer.slots]
    number = b.emit(Add(), step, scalar(b, 1, step))
    moved, kept = optimizer.update(b, weight, gradient, lr, number, slots)
    for state, value in zip((weight, *slots), (moved, *kept), strict=True):
        f.update(state, value)
    f.update(step, number)
    return f


@pytest.mark.parametrize(("optimizer", "wanted"), AFTER_THREE_STEPS, ids=str)
def test_three_steps_are_those_of_pytorch(optimizer: Optimizer, wanted: tuple[float, ...]) -> None:
    states = {name: np.zeros(3) for name in optimizer.slots}
    states |= {"weight": np.array(WEIGHT), "step": np.array(0)}
    f = step_of(optimizer)
    for step, gradient in enumerate(GRADIENTS):
        run_function(f, [np.array(gradient), np.array(rate_at(optimizer, step))], states)
    np.testing.assert_allclose(states["weight"], wanted, rtol=1e-8)


def test_lion_moves_by_the_learning_rate_where_the_average_points() -> None:
    f = step_of(Lion(0.1, weight_decay=0.5))
    states = {"weight": np.array(WEIGHT), "step": np.array(0), "mean": np.array([0.0, 1.0, 0.0])}
    run_function(f, [np.array([1.0, -2.0, 0.0]), np.array(0.1)], states)
    np.testing.assert_allclose(states["weight"], [0.85, -2.0, 0.475])
    np.testing.assert_allclose(states["mean"], [0.01, 0.97, 0.0])


def test_the_first_bias_correction_keeps_its_digits_in_single_precision() -> None:
    f = Function("main")
    b = Builder(f)
    types = [TensorType.of(np.zeros(shape, np.float32)) for shape in ((1,), (1,), ())]
    weight, gradient, lr = (f.input(n, t) for n, t in zip("wgr", types, strict=True))
    step = f.input("t", TensorType(i64, ()))
    mean, square = f.input("m", types[0]), f.input("v", types[0])
    moved, _, _ = ops.Adam().lower(b, weight, gradient, lr, step, mean, square)
    f.output("w", moved)
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    (got,) = run_function(f, [zero, one, one[0], np.array(1), zero, zero])
    np.testing.assert_allclose(got, [-1.0], rtol=3e-7)


def test_a_schedule_gives_the_rate_of_each_step() -> None:
    assert [rate_at(SGD(lambda step: 1 / (1 + step)), step) for step in (0, 1, 3)] == [1, 0.5, 0.25]
    assert rate_at(SGD(2), 7) == 2.0


def test_betas_may_be_a_list() -> None:
    assert Adam(betas=[0.5, 0.9]) == Adam(betas=(0.5, 0.9))  # type: ignore[arg-type]


def test_optimizers_have_names() -> None:
    assert optimizers.named("adamw") == AdamW()
    with pytest.raises(UsageError) as caught:
        optimizers.named("newton")
    assert caught.value.help == "known are adagrad, adam, adamw, lion, rmsprop, sgd"


REFUSED = [
    (lambda: SGD(-1), "SGD: lr must be a number of at least 0, got -1"),
    (lambda: SGD("fast"), "SGD: lr must be a number of at least 0, got 'fast'"),
    (lambda: SGD(momentum=float("nan")), "SGD: momentum must be a number of at least 0, got nan"),
    (lambda: SGD(0.1, 0.9, 1.5), "SGD: dampening must be a number from 0 to less than 1, got 1.5"),
    (
        lambda: SGD(nesterov=True),
        "SGD: nesterov needs momentum and no dampening, got momentum=0, dampening=0",
    ),
    (lambda: Adam(betas=0.9), "Adam: betas must be two numbers, got 0.9"),
    (
        lambda: AdamW(betas=(0.9, 1.0)),
        "AdamW: betas[1] must be a number from 0 to less than 1, got 1.0",
    ),
    (lambda: AdamW(eps=-1e-8), "AdamW: eps must be a number of at least 0, got -1e-08"),
    (lambda: Adagrad(lr_decay=-1), "Adagrad: lr_decay must be a number of at least 0, got -1"),
    (
        lambda: RMSProp(alpha=2),
        "RMSProp: alpha must be a number from 0 to less than 1, got 2",
    ),
    (
        lambda: Lion(weight_decay=True),
        "Lion: weight_decay must be a number of at least 0, got True",
    ),
]


@pytest.mark.parametrize(("make", "text"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_makes_no_sense_is_refused(make: Callable[[], Optimizer], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.what == text


@pytest.mark.parametrize("rate", [None, -0.5, float("nan"), float("inf")])
def test_a_schedule_that_gives_no_rate_is_refused_with_the_step(rate: Any) -> None:
    with pytest.raises(UsageError) as caught:
        rate_at(SGD(lambda step: rate), 3)
    assert caught.value.what == (
        f"the learning rate of step 3 must be a number of at least 0, got {rate}"
    )
