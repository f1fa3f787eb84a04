"""Comparing observations."""

from __future__ import annotations

import numpy as np

from afterglow.quantization.observation import Observation


def assert_same(found: Observation, wanted: Observation, tolerance: float = 1e-5) -> None:
    """All is equal, but for roundings of means."""
    exact = ("low", "high", "reach", "runs")
    assert [getattr(found, name) for name in exact] == [getattr(wanted, name) for name in exact]
    for name in ("average_low", "average_high"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-12)
    assert (found.counts == wanted.counts).all()
    assert (found.channels is None) == (wanted.channels is None)
    if found.channels is not None and wanted.channels is not None:
        assert (found.channels.low == wanted.channels.low).all()
        assert (found.channels.high == wanted.channels.high).all()
        size = max(abs(wanted.low), abs(wanted.high))
        np.testing.assert_allclose(
            found.channels.mean, wanted.channels.mean, rtol=tolerance, atol=tolerance * size
        )
