from __future__ import annotations

import numpy as np
import onnx
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
from tests.frontends.models import info, model, node

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
    program = program_of(spectrum(last))
    assert ("strassen" in names(choices_of(program, TARGET, DEFAULT))[0]) is not is_exact
    assert ("strassen" in symbols(program, DEFAULT)) is not is_exact


def test_silence_before_a_logarithm_stays_silent() -> None:
    x = np.random.default_rng(1).random((512, 256), np.float32)
    x[300:] = 0
    y = afterglow.compile(spectrum("Log"), cache=False)(x)
    assert (y[:, 300:] == np.log(np.float32(1e-10))).all()


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
