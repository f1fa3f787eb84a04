"""Resampling: what lies outside of an image of integers."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from afterglow.ops.image import Coordinates, Resize
from afterglow.support.errors import TypeRuleError
from afterglow.types import TensorType
from afterglow.types.dtype import i4


def cropped(extrapolation: float) -> Resize:
    """Three elements of twice the extent of an image of three, and so two of them outside."""
    region = (-0.5, 1.5)
    return Resize(
        (3,), (1.0,), coordinates=Coordinates.CROP, region=region, extrapolation=extrapolation
    )


@pytest.mark.parametrize(("value", "beyond"), [(300.0, 7), (-math.inf, -8), (-3.9, -3)])
def test_an_extrapolation_value_saturates(value: float, beyond: int) -> None:
    y = cropped(value).evaluate(np.array([1, 2, 3], ml_dtypes.int4))
    assert y.astype(int).tolist() == [beyond, 2, beyond]


def test_integers_have_no_nan_to_extrapolate_with() -> None:
    with pytest.raises(TypeRuleError) as caught:
        cropped(math.nan).infer(TensorType(i4, (3,)))
    assert caught.value.what == "the extrapolation value is NaN, which i4 does not have"
