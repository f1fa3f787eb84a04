from __future__ import annotations

import pytest

from afterglow.support.svg import round_step


@pytest.mark.parametrize(
    ("span", "most", "step"), [(10, 5, 2), (11, 5, 5), (0.7, 6, 0.2), (25, 25, 1), (3e6, 4, 1e6)]
)
def test_a_step_is_round_and_fits(span, most, step):
    assert round_step(span, most) == pytest.approx(step)
