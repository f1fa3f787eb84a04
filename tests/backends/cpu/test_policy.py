from __future__ import annotations

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.backends.backend import Settings
from afterglow.backends.capabilities import Choice
from afterglow.backends.cpu import Target
from afterglow.backends.cpu.backend import Cpu
from afterglow.backends.cpu.codegen.generate import generate
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.instr import KernelPlan, Program
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.runtime.device import LoadOptions
from afterglow.support.errors import UsageError
from tests.backends.cpu import networks
from tests.frontends.models import info, model, node

TARGET = "x86-64-v3"


def program_of(network, policy: Policy = DEFAULT, target: str = TARGET) -> Program:
    stages = Stages(Options(target=target, policy=policy))
    module, _ = open_source(network).load(stages.options)
    return stages.plan(stages.lower(stages.optimise(module)))[0]


def choices(network, policy: Policy = DEFAULT) -> list[Choice]:
    """The choices for convolutions and products."""
    found = Cpu(Settings(TARGET, policy)).choices(program_of(network, policy))
    return [choice for choice in found if isinstance(choice.anchor.op, (Conv, MatMul))]


def symbols(network, policy: Policy = DEFAULT) -> str:
    kernels = generate(program_of(network, policy), Target.of(TARGET)).kernels.values()
    return " ".join(function.symbol for kernel in kernels for function in kernel.functions)


def names(choices: list[Choice]) -> list[list[str]]:
    return [[plan.algorithm for plan in choice.plans] for choice in choices]


def test_the_fastest_by_an_estimate_comes_first() -> None:
    first, second = choices(networks.cnn())
    assert names([first, second]) == [["direct"], [*4 * ["winograd"], "direct"]]
    assert [plan.variant for plan in second.plans[:2]] == [
        "winograd (size 4)",
        "winograd (size 4, weights in run)",
    ]
    costs = [plan.cost for plan in second.plans]
    assert costs == sorted(costs)
    assert "winograd4" in symbols(networks.cnn())


def test_only_the_algorithm_by_definition() -> None:
    policy = Policy(exact=True)
    assert names(choices(networks.cnn(), policy)) == [["direct"], ["direct"]]
    assert "winograd" not in symbols(networks.cnn(), policy)


def test_weights_are_transformed_in_each_run_where_memory_counts() -> None:
    found = choices(networks.cnn(), Policy(small_weights=True))
    assert names(found) == [["direct"], ["winograd", "winograd", "direct"]]
    assert not any(plan.weight_growth for choice in found for plan in choice.plans)


def test_what_is_picked_is_taken() -> None:
    choice = choices(networks.cnn())[1]
    key, direct = choice.key, choice.plans[-1].variant
    assert "winograd2" in symbols(networks.cnn(), Policy(variants={key: "winograd (size 2)"}))
    assert "winograd" not in symbols(networks.cnn(), Policy(variants={key: direct}))
    assert "winograd4" in symbols(networks.cnn(), Policy(variants={key: "something unknown"}))


def test_the_least_workspace_can_be_asked_for() -> None:
    fast, frugal = (program_of(networks.cnn(), Policy(least_workspace=b)) for b in (False, True))
    assert (frugal.arena_bytes or 0) <= (fast.arena_bytes or 0)


def test_the_tiles_of_products() -> None:
    for choice in choices(networks.mlp()):
        costs = [plan.cost for plan in choice.plans]
        assert costs == sorted(costs)
        assert len({plan.variant for plan in choice.plans}) == len(costs)


def test_everything_that_can_be_picked_is_measured() -> None:
    found = Cpu().choices(program_of(networks.mlp(), target="host"))
    Cpu().measure(
        lambda policy: program_of(networks.mlp(), policy, "host"), found, LoadOptions(1), 0.0
    )
    for choice in found:
        assert all(seconds > 0 for seconds in choice.seconds.values())
        assert choice.best in choice.seconds


def test_noise_decides_nothing() -> None:
    plans = [KernelPlan("estimated", cost=1.0), KernelPlan("other", cost=2.0)]
    choice = Choice("", "", None, plans, seconds={"estimated": 1.0, "other": 0.99})
    assert choice.best == "estimated"
    choice.seconds["other"] = 0.9
    assert choice.best == "other"
    assert Choice("", "", None, plans).best == "estimated"


def spectrum(last: str) -> onnx.ModelProto:
    """A product of which only what is not silent is large; and what is made of it."""
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Clip", ["p", "least"], ["c"]),
        node("Transpose", ["c"], ["t"], perm=[1, 0]),
        node(last, ["t"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    constants = {"w": rng.random((256, 256), np.float32), "least": np.float32(1e-10)}
    return model(
        nodes,
        inputs=[info("x", (512, 256))],
        outputs=[info("y", (256, 512))],
        constants=constants,
    )


@pytest.mark.parametrize(("last", "is_exact"), [("Relu", False), ("Log", True), ("Sqrt", True)])
def test_what_a_logarithm_follows_is_formed_as_it_is_defined(last: str, is_exact: bool) -> None:
    assert ("strassen" in names(choices(spectrum(last)))[0]) is not is_exact
    assert ("strassen" in symbols(spectrum(last))) is not is_exact


def test_silence_before_a_logarithm_stays_silent() -> None:
    x = np.random.default_rng(1).random((512, 256), np.float32)
    x[300:] = 0
    y = afterglow.compile(spectrum("Log"), cache=False)(x)
    assert (y[:, 300:] == np.log(np.float32(1e-10))).all()


def test_rows_of_zeros_stay_zeros_where_they_are_divided_by_their_lengths() -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Slice", ["p", "start", "end", "axis"], ["s"]),
        node("ReduceL2", ["s", "axis"], ["length"], keepdims=1),
        node("Max", ["length", "least"], ["safe"]),
        node("Div", ["s", "safe"], ["y"]),
    ]
    weight = np.random.default_rng(0).random((256, 256), np.float32)
    bounds = {"start": np.array([0]), "end": np.array([128]), "axis": np.array([1])}
    constants = {"w": weight, "least": np.float32(1e-12), **bounds}
    made = model(
        nodes,
        inputs=[info("x", (512, 256))],
        outputs=[info("y", (512, 128))],
        constants=constants,
    )
    x = np.random.default_rng(1).random((512, 256), np.float32)
    x[300:] = 0
    assert not afterglow.compile(made, cache=False)(x)[300:].any()


def test_results_agree_whatever_the_policy() -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 33, 31)).astype(np.float32)
    network = networks.cnn()
    plain, *others = (
        afterglow.compile(network, cache=False, **options)(x)
        for options in ({"exact": True}, {}, {"optimize_for": "memory"}, {"tune": 0.01})
    )
    for other in others:
        np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-5)


def test_weights_take_less_where_memory_counts() -> None:
    large, small = (
        afterglow.compile(networks.cnn(), cache=False, optimize_for=wish).memory.weight_bytes
        for wish in ("speed", "memory")
    )
    assert small < large


def test_a_wish_that_nobody_understands() -> None:
    with pytest.raises(UsageError, match="cannot be optimised for 'beauty'"):
        afterglow.compile(networks.cnn(), optimize_for="beauty")
    with pytest.raises(UsageError, match="cannot tune for -1 s"):
        afterglow.compile(networks.cnn(), tune=-1)
