"""Predicates that rules share."""

import numpy as np
import pytest

from afterglow.graph import Constant, parse_function
from afterglow.transforms.matching.values import has_one_use, is_filled, uniform


def test_one_use_means_that_nobody_else_needs_it() -> None:
    function = parse_function(
        """
        state @s : f32[2]
        func @main(%x: f32[2]) {
          %once = exp(%x) : f32[2]
          %returned = exp(%once) : f32[2]
          %stored = exp(%returned) : f32[2]
          %twice = exp(%stored) : f32[2]
          %square = mul(%twice, %twice) : f32[2]
          %unused = neg(%square) : f32[2]
          store %stored to @s
          return %returned
        }
        """
    )
    found = [node.name for node in function.nodes if has_one_use(node.result)]
    assert found == ["once", "square"]


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (np.full((2, 3), 1.5, np.float32), 1.5),
        (np.array(7, np.int64), 7),
        (np.array([1, 1, 2, 1], np.float32), None),
        (np.array([np.nan, np.nan], np.float32), None),
        (np.zeros(0, np.float32), None),
        (np.array([2**53 + 1], np.int64), None),  # no float holds it
        (np.array([True, True]), None),
    ],
)
def test_uniform_constants(data: np.ndarray, number: float | None) -> None:
    assert uniform(Constant("c", data)) == number


def test_filled_constants() -> None:
    assert is_filled(Constant("c", np.zeros((2, 2), np.float32)), 0)
    assert is_filled(Constant("c", np.array([True, True])), 1)
    assert not is_filled(Constant("c", np.array([True, False])), 1)
    assert not is_filled(Constant("c", np.zeros(0, np.float32)), 0)
