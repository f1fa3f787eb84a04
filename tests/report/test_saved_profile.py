from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.report.saved_profile import profile_saved
from afterglow.support.errors import UsageError
from tests.backends.cpu import networks
from tests.frontends.models import model, node


def test_every_step_is_timed_and_the_run_is_right():
    compiled = afterglow.compile(networks.cnn(), threads=1)
    x = np.random.default_rng(0).standard_normal(compiled.inputs[0].shape).astype(np.float32)
    want = compiled(x)
    steps = profile_saved(compiled.compiled, [x], repeat=3)
    assert [step.place for step in steps] == list(range(len(steps)))
    assert all(0 < step.seconds < 1 for step in steps)
    assert any(step.origins for step in steps)
    np.testing.assert_array_equal(compiled(x), want)


def test_only_machine_code_is_profiled():
    compiled = afterglow.compile(model([node("Relu", ["x"], ["y"])]), backend="interpreter")
    with pytest.raises(UsageError, match="the device of this model times no steps"):
        profile_saved(compiled.compiled, [np.zeros((2, 3), np.float32)], repeat=1)
