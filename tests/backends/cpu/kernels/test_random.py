"""Random numbers: the bits of the definition, in pieces, with gaps, and with steps after them."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.ops.elementwise import LessEqual
from afterglow.ops.random import RandomUniform
from tests.backends.cpu.kernels.harness import Bench

RUN = np.array(2**40 + 17)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("shape", [(3, 36), (2, 5, 100), (8300,)], ids=str)
def test_numbers_are_those_of_the_definition(target: str, shape: tuple[int, ...]) -> None:
    bench = Bench(Target.of(target))
    op = RandomUniform(shape, seed=2**63 + 9, stream=2)
    bench.step(op, bench.input(RUN), stored=True, gaps=len(shape) > 1)
    bench.check(pieces=2, rtol=0, atol=0)


def test_steps_after_it_work_on_its_numbers() -> None:
    bench = Bench()
    drawn = bench.step(RandomUniform((7, 44)), bench.input(RUN))
    bench.step(LessEqual(), bench.constant(np.array(0.3, np.float32)), drawn, stored=True)
    bench.check(pieces=3)
