from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.backends.cpu import Target
from afterglow.backends.cpu.candidate import Candidate
from afterglow.backends.cpu.codegen import generate
from afterglow.backends.cpu.compile import compile_module
from afterglow.backends.cpu.tuning import Choice, choices_of, made_inputs, measure
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.instr import Program
from afterglow.support.errors import UsageError
from tests.backends.cpu import networks

TARGET = Target.of("x86-64-v3")


def program_of(network) -> Program:
    stages = Stages(Options())
    module, _ = open_source(network).load(stages.options)
    return stages.plan(stages.lower(stages.optimise(module)))[0]


def symbols(program: Program, policy: Policy) -> str:
    kernels = generate(program, TARGET, policy=policy).kernels.values()
    return " ".join(function.symbol for kernel in kernels for function in kernel.functions)


@pytest.fixture(scope="module")
def cnn() -> Program:
    return program_of(networks.cnn())


@pytest.fixture(scope="module")
def mlp() -> Program:
    return program_of(networks.mlp())


def names(choices: list[Choice]) -> list[list[str]]:
    return [[candidate.name for candidate in choice.candidates] for choice in choices]


def test_the_fastest_by_an_estimate_comes_first(cnn: Program) -> None:
    first, second = choices_of(cnn, TARGET, DEFAULT)
    assert names([first, second]) == [["direct"], ["winograd 4x4", "winograd 2x2", "direct"]]
    costs = [candidate.cost for candidate in second.candidates]
    assert costs == sorted(costs)
    assert "winograd4" in symbols(cnn, DEFAULT)


@pytest.mark.parametrize("policy", [Policy(exact=True), Policy(small_weights=True)], ids=repr)
def test_only_the_plain_way(cnn: Program, policy: Policy) -> None:
    assert names(choices_of(cnn, TARGET, policy)) == [["direct"], ["direct"]]
    assert "winograd" not in symbols(cnn, policy)


def test_what_is_picked_is_taken(cnn: Program) -> None:
    key = choices_of(cnn, TARGET, DEFAULT)[1].job.key
    assert "winograd2" in symbols(cnn, Policy(picks={key: "winograd 2x2"}))
    assert "winograd" not in symbols(cnn, Policy(picks={key: "direct"}))
    assert "winograd4" in symbols(cnn, Policy(picks={key: "something unknown"}))


def test_the_tiles_of_products(mlp: Program) -> None:
    for choice in choices_of(mlp, TARGET, DEFAULT):
        costs = [candidate.cost for candidate in choice.candidates]
        assert costs == sorted(costs)
        assert len(set(names([choice])[0])) == len(costs)


def test_everything_that_can_be_picked_computes_the_same(mlp: Program) -> None:
    host = Target.host()
    choices = choices_of(mlp, host, DEFAULT)
    inputs = made_inputs(mlp)
    measure(
        *(mlp, choices, host, DEFAULT),
        inputs=inputs,
        threads=1,
        seconds=0,
        compiled=compile_module,
    )
    for choice in choices:
        assert all(seconds > 0 for seconds in choice.seconds.values())
        assert choice.best in choice.seconds


def test_noise_decides_nothing() -> None:
    candidates = [Candidate("estimated", 1.0), Candidate("other", 2.0)]
    choice = Choice(None, candidates, seconds={"estimated": 1.0, "other": 0.99})
    assert choice.best == "estimated"
    choice.seconds["other"] = 0.9
    assert choice.best == "other"
    assert Choice(None, candidates).best == "estimated"


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
