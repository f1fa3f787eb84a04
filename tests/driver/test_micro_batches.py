"""Micro-batches are chosen where large batches would not stay in the cache."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import afterglow
from afterglow.driver.micro_batches import choose_micro_batches
from afterglow.graph import Module
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.reduction import ReduceMean
from afterglow.runtime.micro_batches import MicroBatches
from afterglow.support.errors import UsageError
from afterglow.testing.arrays import random_inputs
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types.extent import Dim, ranged
from tests.lowering.networks import Network, network

BATCH = Dim("batch", 1, 16)
ITEM = 2 * 8 * 8 * 16 * 4
"""Bytes of an item of `images` while a convolution runs."""


def images(n: Network) -> object:
    x = n.emit(Relu(), n.conv(n.input(ranged(BATCH), 8, 8, 16), 16))
    return n.emit(ReduceMean((1, 2), keepdims=False), n.conv(x, 16))


def heavy(n: Network) -> object:
    return n.emit(MatMul(), n.input(ranged(BATCH), 64), n.constant(64, 512))


def stateful(n: Network) -> object:
    x = n.input(ranged(BATCH), 512)
    total = n.emit(ReduceMean((0,), keepdims=False), x)
    return n.emit(Add(), x, total)


def made(build) -> Module:
    return network(build).module


def test_as_many_items_are_taken_as_half_of_the_cache_holds() -> None:
    module = made(images)
    assert choose_micro_batches(module, 10 * ITEM) == MicroBatches(BATCH, 5, (0,))
    assert choose_micro_batches(module, 2 * ITEM) == MicroBatches(BATCH, 2, (0,))


@pytest.mark.parametrize("cache_bytes", [0, 32 * ITEM])
def test_a_batch_that_stays_in_the_cache_is_not_divided(cache_bytes) -> None:
    assert choose_micro_batches(made(images), cache_bytes) is None


def test_a_batch_is_not_divided_where_weights_would_be_read_too_often() -> None:
    assert choose_micro_batches(made(heavy), 4096) is None


def test_a_batch_whose_items_depend_on_each_other_is_not_divided() -> None:
    assert choose_micro_batches(made(stateful), 4096) is None


@pytest.mark.parametrize("dim", [Dim("batch", 2, 16), Dim("batch", 0, 16, 2)])
def test_a_batch_of_several_items_at_least_is_not_divided(dim) -> None:
    module = made(images).bind({"batch": ranged(dim)})
    assert choose_micro_batches(module, 4 * ITEM) is None


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for micro-batches of three items."""
    monkeypatch.setattr("afterglow.backends.cpu.backend.Cpu.cache_bytes", 6 * ITEM)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_program_for_micro_batches_serves_all_batches(small_cache, threads) -> None:
    runs = [{"batch": items} for items in (1, 2, 3, 4, 7, 16)]
    check_ranged(made(images), runs, threads=threads, tolerance=1e-4)


def test_its_arena_is_that_of_a_micro_batch(small_cache) -> None:
    model = afterglow.compile(made(images), cache=False)
    part = afterglow.compile(made(images).bind({"batch": ranged(Dim("batch", 1, 3))}), cache=False)
    assert model.dims == {"batch": (1, 16, 1)}
    assert [str(info) for info in model.inputs] == ["x0: f32[batch, 8, 8, 16]"]
    assert model.memory.arena_bytes == part.memory.arena_bytes
    assert model.memory.io_bytes == 16 * (8 * 8 * 16 + 16) * 4
    assert "dim batch : 1..3" in model.ir("instructions")
    with pytest.raises(UsageError) as caught:
        model(np.zeros((17, 8, 8, 16), np.float32))
    assert caught.value.what == "dimension 'batch' of input 'x0' is 17, out of its bounds 1..16"


def test_it_is_saved_and_pickled(small_cache, tmp_path) -> None:
    model = afterglow.compile(made(images), cache=False)
    (x,) = random_inputs(made(images).bind({"batch": 10}).main)
    model.save(tmp_path / "model.agc")
    loaded = afterglow.load(tmp_path / "model.agc")
    for copy in (loaded, pickle.loads(pickle.dumps(model))):
        assert copy.dims == model.dims
        assert copy.memory.arena_bytes == model.memory.arena_bytes
        np.testing.assert_array_equal(copy(x), model(x))
