"""Orders of elements, however a value is shaped."""

import math
from random import Random

import numpy as np
import pytest

from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.layouts.permutations import composed, inverse, is_identity, swaps_last_two
from afterglow.types import Array


def arranged(layout: Layout, values: Array) -> Array:
    return values.reshape(layout.factors).transpose(layout.perm)


def grouped(random: Random, factors: list[int]) -> tuple[int, ...]:
    """A shape whose extents are products of neighbouring factors, with some ones between."""
    shape = [1]
    for factor in factors:
        shape[-1] *= factor
        if random.random() < 0.6:
            shape.append(1)
    return tuple(shape)


def shuffled(random: Random, count: int) -> tuple[int, ...]:
    return tuple(random.sample(range(count), count))


@pytest.mark.parametrize("seed", range(200))
def test_a_layout_is_carried_through_any_reshape(seed: int) -> None:
    random = Random(seed)
    factors = [random.choice([1, 2, 2, 3]) for _ in range(random.randint(1, 6))]
    values = np.arange(math.prod(factors))
    own, shape = grouped(random, factors), grouped(random, factors)
    layout = Layout(own, shuffled(random, len(own)))
    carried = layout.carried(shape)
    assert carried is not None
    assert arranged(carried, values).shape == carried.shape
    assert (arranged(carried, values).ravel() == arranged(layout, values).ravel()).all()
    assert carried.order == layout.order
    assert layout.keeps_order == (arranged(layout, values).ravel() == values).all()
    products = [math.prod(carried.factors[i] for i in group) for group in carried.axes(shape)]
    assert tuple(products) == shape


@pytest.mark.parametrize("seed", range(50))
def test_a_layout_is_carried_above_a_transpose(seed: int) -> None:
    random = Random(seed)
    shape = tuple(random.choice([1, 2, 4, 6]) for _ in range(4))
    perm = shuffled(random, 4)
    values = np.arange(math.prod(shape)).reshape(shape)
    turned = values.transpose(perm)
    cut = tuple(
        n for extent in turned.shape for n in ((2, extent // 2) if extent > 2 else (extent,))
    )
    layout = Layout(cut, shuffled(random, len(cut)))
    above = layout.before_transpose(perm, shape)
    assert (arranged(above, values) == arranged(layout, turned)).all()


def test_a_layout_is_not_carried_into_axes_that_cut_factors_unevenly() -> None:
    assert Layout((6, 4), (1, 0)).carried((8, 3)) is None
    assert Layout((0, 6), (1, 0)).carried((6, 0)) is None


def test_unit_axes_follow_the_axis_before_them() -> None:
    assert Layout((1, 3, 4), (0, 2, 1)).carried((1, 3, 1, 4)) == Layout((1, 3, 1, 4), (0, 3, 1, 2))


@pytest.mark.parametrize(
    ("layout", "columns"),
    [
        (Layout((2, 3, 4), (0, 2, 1)), Layout((3, 4), (1, 0))),
        (Layout((2, 1, 3, 4), (1, 0, 3, 2)), Layout((3, 4), (1, 0))),
        (Layout((2, 3, 4), (1, 0, 2)), None),
    ],
)
def test_columns_may_move_among_themselves(layout: Layout, columns: Layout | None) -> None:
    assert layout.within_last_axis((2, 12)) == columns


def test_permutations_compose_and_cancel() -> None:
    perm = (2, 0, 3, 1)
    assert is_identity(composed(perm, inverse(perm)))
    assert swaps_last_two((0, 1, 3, 2))
    assert not swaps_last_two((0,))
