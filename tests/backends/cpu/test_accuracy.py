from __future__ import annotations

import pytest

from afterglow.backends.policy import Policy
from tests.backends.cpu.accuracy import LAYERS, errors

BOUND = 1e-5
"""What docs/accuracy.md promises of the algorithm that is chosen."""


@pytest.mark.parametrize("layer", LAYERS)
def test_the_chosen_algorithm_is_accurate(layer: str) -> None:
    _, error = next(errors(layer))
    assert error < BOUND


@pytest.mark.parametrize("layer", [name for name in LAYERS if name.startswith("conv 3x3")])
def test_plain_sums_are_accurate_too(layer: str) -> None:
    [(name, error)] = errors(layer, Policy(exact=True))
    assert name.startswith("direct")
    assert error < BOUND
