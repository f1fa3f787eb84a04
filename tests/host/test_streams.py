"""The streams of a host's devices have cores of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow as ag
from afterglow.runtime.native.machine import usable_cores

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.mark.skipif(usable_cores() < 2, reason="one core")
def test_models_of_a_host_have_its_streams_as_long_as_there_are_cores() -> None:
    image = np.ones((1, 1, 8, 8), np.float32)
    wanted = ag.compile(DIGITS, threads=1)(image)
    for streams, most in ((2, 2), (4 * usable_cores(), usable_cores())):
        with ag.Host(ag.LogicalDevice("cpu", threads=1), streams=streams) as host:
            host.add("digits", DIGITS)
            futures = [host.submit("digits", image) for _ in range(20)]
            assert all((future.result() == wanted).all() for future in futures)
            (placement,) = host._scheduler.entries["digits"].placements
            assert placement.model.compiled.executable.streams == most
