"""Whole models on every machine that can be emulated, against the interpreter."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import afterglow
from afterglow.backends.cpu.bundle.survey import survey
from afterglow.runtime.native.status import Status
from afterglow.types import Array
from tests.emulation.machine import EmulatorError
from tests.emulation.make import EMULATED, skip_without_emulator
from tests.emulation.models import MODELS, look_ups, wide_numbers
from tests.emulation.program import EmulatedModel, bundle_of

MOST_CODE = 20 << 10
"""Bytes of code that no model here needs more of on a processor without vectors."""
SMALL = ("cortex-m4", "cortex-m7", "cortex-m33", "riscv32")


@cache
def expected(name: str) -> tuple[list[Array], list[Array]]:
    """Random inputs, and what the interpreter makes of them."""
    model = afterglow.compile(MODELS[name](), backend="interpreter")
    random = np.random.default_rng(7)
    inputs = [random.standard_normal(x.shape).astype(np.float32) for x in model.inputs]
    feed = dict(zip((x.name for x in model.inputs), inputs, strict=True))
    return inputs, model.run(None, feed)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target", EMULATED)
def test_model(model: str, target: str) -> None:
    skip_without_emulator(target)
    inputs, wanted = expected(model)
    bundle = bundle_of(MODELS[model](), target)
    emulated = EmulatedModel(bundle)
    try:
        results = emulated.run(inputs)
        again = emulated.run(inputs)
    except EmulatorError as error:
        pytest.skip(f"the emulator gave up: {error}")
    for result, same, correct in zip(results, again, wanted, strict=True):
        np.testing.assert_allclose(result, correct, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(result, same)
    assert emulated.self_check() == 0
    assert getattr(emulated.machine, "stack_bytes", 0) <= emulated.entry.stack_bytes
    found = survey(bundle.object)
    assert found is None or found.undefined == ()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target", SMALL)
def test_code_is_small(model: str, target: str) -> None:
    assert bundle_of(MODELS[model](), target, small=True).code_bytes < MOST_CODE


def test_wrong_use_is_told() -> None:
    skip_without_emulator("cortex-m4")
    emulated = EmulatedModel(bundle_of(MODELS["mlp"](), "cortex-m4"))
    run, io, arena, weights = "model_run", emulated.io, emulated.arena, emulated.weights
    assert emulated.machine.call(run, io, arena, weights) == 0
    assert emulated.machine.call(run, 0, arena, weights) == 1
    assert emulated.machine.call(run, io, arena + 4, weights) == 2


@pytest.mark.parametrize("target", EMULATED)
def test_an_index_out_of_range_is_told(target: str) -> None:
    skip_without_emulator(target)
    emulated = EmulatedModel(bundle_of(look_ups(), target))
    x, right = np.arange(21, dtype=np.float32).reshape(7, 3), np.array([[0, -3], [6, 2]])
    assert np.array_equal(emulated.run([x, right])[0], x[[0, 6], [0, 2]] + x[[0, 6], 0])
    for wrong in (7, -8, 2**31, 2**32 + 1, -(2**32)):
        indices = right.copy()
        indices[1, 0] = wrong
        assert emulated.run_status([x, indices]) == Status.INDEX
    assert emulated.run_status([x, right]) == Status.OK
    assert emulated.self_check() == 0


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m33", "armv7a", "riscv32", "aarch64"])
def test_numbers_of_64_bits(target: str) -> None:
    skip_without_emulator(target)
    x = np.random.default_rng(1).standard_normal((2, 9)).astype(np.float32)
    wanted = afterglow.compile(wide_numbers(), backend="interpreter").run(None, {"x": x})
    bundle = bundle_of(wide_numbers(), target)
    found = survey(bundle.object)
    assert found is not None
    assert found.undefined == ()
    np.testing.assert_array_equal(EmulatedModel(bundle).run([x])[0], wanted[0])
