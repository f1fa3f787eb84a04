"""Micro-batches are chosen where large batches would not stay in the cache."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import afterglow
from afterglow.driver.micro_batches import divide_batches
from afterglow.graph import Module
from afterglow.lowering import batch_traffic
from afterglow.lowering.batch_traffic import CacheSharing
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


@pytest.fixture
def cheap_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nets that are small, and yet worth dividing."""
    monkeypatch.setattr(batch_traffic, "STEP_BYTES", 0)


def chosen(module: Module, cache_bytes: int) -> MicroBatches | None:
    """How batches are divided; the module is for micro-batches."""
    part, batches = divide_batches(module, CacheSharing(cache_bytes))
    assert (part is module) == (batches is None)
    return batches


def exact(build, items: int = 16) -> Module:
    return made(build).bind({"batch": items})


def test_as_many_items_are_taken_as_stay_in_half_of_the_cache(cheap_steps) -> None:
    module = made(images)
    assert chosen(module, 14 * ITEM) == MicroBatches(BATCH, 5, (0,))
    assert chosen(module, ITEM) is None  # not even single items would stay there


def test_an_exact_batch_is_divided_into_equal_parts(cheap_steps) -> None:
    part, batches = divide_batches(exact(images), CacheSharing(14 * ITEM))
    assert batches == MicroBatches(16, 4, (0,))
    assert [value.type.shape for value in part.main.inputs] == [(4, 8, 8, 16)]
    assert chosen(exact(images, 14), 20 * ITEM) == MicroBatches(14, 7, (0,))
    assert chosen(exact(images, 17), 14 * ITEM) == MicroBatches(17, 1, (0,))


@pytest.mark.parametrize("module", [made(images), exact(images)])
@pytest.mark.parametrize("cache_bytes", [0, 40 * ITEM])
def test_a_batch_that_stays_in_the_cache_is_not_divided(cheap_steps, module, cache_bytes) -> None:
    assert chosen(module, cache_bytes) is None


@pytest.mark.parametrize("module", [made(images), exact(images)])
def test_a_batch_is_not_divided_where_steps_cost_more_than_they_save(module) -> None:
    assert chosen(module, 14 * ITEM) is None


@pytest.mark.parametrize("module", [made(heavy), exact(heavy)])
def test_a_batch_is_not_divided_where_weights_would_be_read_too_often(cheap_steps, module) -> None:
    assert chosen(module, 4096) is None


@pytest.mark.parametrize("module", [made(stateful), exact(stateful)])
def test_a_batch_whose_items_depend_on_each_other_is_not_divided(cheap_steps, module) -> None:
    assert chosen(module, 4096) is None


def test_a_batch_is_not_divided_whose_items_have_weights_of_their_own(cheap_steps) -> None:
    def own(n: Network) -> object:
        x = n.emit(Relu(), n.conv(n.input(16, 8, 8, 16), 16))
        return n.emit(Add(), n.conv(x, 16), n.constant(16, 1, 1, 1))

    assert chosen(made(own), 14 * ITEM) is None


@pytest.mark.parametrize("dim", [Dim("batch", 2, 16), Dim("batch", 0, 16, 2)])
def test_a_batch_of_several_items_at_least_is_not_divided(cheap_steps, dim) -> None:
    module = made(images).bind({"batch": ranged(dim)})
    assert chosen(module, 14 * ITEM) is None


@pytest.fixture
def small_cache(cheap_steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for micro-batches of three items."""
    monkeypatch.setattr("afterglow.backends.cpu.backend.Cpu.cache_bytes", 10 * ITEM)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("items", [9, 12])
def test_an_exact_batch_gives_what_single_items_give(small_cache, items, threads) -> None:
    model = afterglow.compile(exact(images, items), cache=False, threads=threads)
    single = afterglow.compile(exact(images, 1), cache=False, threads=threads)
    (x,) = random_inputs(exact(images, items).main)
    assert model.compiled.batches == MicroBatches(items, 3, (0,))
    expected = np.concatenate([single(x[i : i + 1]) for i in range(items)])
    np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-5)
    target = np.empty_like(expected)
    assert model.run_into(target, x) is target
    np.testing.assert_array_equal(target, model(x))


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


@pytest.mark.parametrize("module", [made(images), exact(images, 9)])
def test_it_is_saved_and_pickled(small_cache, tmp_path, module) -> None:
    model = afterglow.compile(module, cache=False)
    assert model.compiled.batches is not None
    (x,) = random_inputs(made(images).bind({"batch": 9}).main)
    model.save(tmp_path / "model.agc")
    loaded = afterglow.load(tmp_path / "model.agc")
    for copy in (loaded, pickle.loads(pickle.dumps(model))):
        assert copy.dims == model.dims
        assert copy.memory.arena_bytes == model.memory.arena_bytes
        np.testing.assert_array_equal(copy(x), model(x))
