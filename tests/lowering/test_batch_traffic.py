"""Estimates of what batches cost in slices."""

from __future__ import annotations

import pytest

from afterglow.lowering.batch_traffic import MISSED_BYTE, STEP_BYTES, BatchTraffic, CacheSharing
from afterglow.ops.activation import Relu
from afterglow.ops.reduction import ReduceMean
from tests.lowering.networks import Network, network

IMAGE = 8 * 8 * 16 * 4
"""Bytes of an item of every value."""
WEIGHTS = 2 * 16 * 3 * 3 * 16 * 4
ITEMS = 16


def images(n: Network) -> object:
    x = n.conv(n.emit(Relu(), n.conv(n.input(ITEMS, 8, 8, 16), 16)), 16)
    return n.emit(ReduceMean((1, 2), keepdims=False), x)


@pytest.fixture
def traffic() -> BatchTraffic:
    return BatchTraffic.of(network(images), ITEMS)


def test_values_that_are_fused_are_not_stored(traffic) -> None:
    assert traffic.steps == 3
    assert [read.nbytes for read in traffic.reads] == [IMAGE, IMAGE]
    assert traffic.reads[0].values == 2 * IMAGE  # itself, and what is made of it


def test_weights_are_counted_once_for_each_slice(traffic) -> None:
    huge = CacheSharing(1 << 40, cores=0)
    assert traffic.weights == WEIGHTS
    assert traffic.cost(4, huge) == 4 * traffic.cost(16, huge)


def test_what_leaves_the_cache_is_counted_for_each_item(traffic) -> None:
    small, large = (CacheSharing(nbytes, cores=0) for nbytes in (1, 1 << 40))
    missed = MISSED_BYTE * ITEMS * 2 * IMAGE
    assert traffic.cost(16, small) - 4 * traffic.cost(16, large) == missed


def test_steps_cost_each_core(traffic) -> None:
    one, two = (traffic.cost(8, CacheSharing(1 << 40, cores)) for cores in (1, 2))
    assert two - one == 2 * 3 * STEP_BYTES


def test_a_batch_fits_if_half_of_the_cache_holds_it(traffic) -> None:
    needed = traffic.peak * ITEMS + WEIGHTS
    assert traffic.fits(CacheSharing(int(2 * needed)))
    assert not traffic.fits(CacheSharing(int(2 * needed) - 2))
