"""Batches that are split over devices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import parse_module, print_module, run_function, verify_module
from afterglow.partition.split import ItemCosts, batch_of, items_of, shares
from afterglow.support.errors import MemoryLimitError, UnsupportedError
from afterglow.testing.arrays import random_inputs

SECONDS = st.integers(0, 5).map(float)
COSTS = st.builds(ItemCosts, SECONDS, SECONDS, st.one_of(st.none(), st.integers(0, 4)))


def seconds(counts, devices):
    return max(d.seconds(n) for n, d in zip(counts, devices, strict=True))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 6), st.lists(COSTS, min_size=1, max_size=3))
def test_no_shares_are_done_earlier(items, devices):
    choices = product(*(range(1 + min(items, 9 if d.most is None else d.most)) for d in devices))
    possible = [seconds(counts, devices) for counts in choices if sum(counts) == items]
    if not possible:
        with pytest.raises(MemoryLimitError):
            shares(items, devices)
        return
    counts = shares(items, devices)
    assert sum(counts) == items
    assert seconds(counts, devices) == min(possible)


def test_shares_are_in_proportion_to_speed():
    assert shares(8, [ItemCosts(1.0), ItemCosts(3.0)]) == [6, 2]


def test_a_batch_without_room_is_refused():
    with pytest.raises(MemoryLimitError) as error:
        shares(8, [ItemCosts(1.0, most=2), ItemCosts(1.0, most=3)])
    assert str(error.value) == (
        "error: a batch of 8 items does not fit the devices: they have room for 5\n"
        "  help: add a device, allow more memory, or make the batch smaller"
    )


NET = """\
const @w : f32[2, 1] = [0.5, -2.0]
const @rows : f32[4, 1] = [1.0, 2.0, 3.0, 4.0]
func @main(%x: f32[4, 4, 4, 2], %scale: f32[1]) {
  %product = matmul(%x, @w) : f32[4, 4, 4, 1]
  %act = relu(%product) : f32[4, 4, 4, 1]
  %flat = reshape(%act) {shape = (4, 16)} : f32[4, 16]
  %soft = softmax(%flat) {axis = -1} : f32[4, 16]
  %twice = add(%scale, %scale) : f32[1]
  %scaled = mul(%soft, %twice) : f32[4, 16]
  %y = add(%scaled, @rows) : f32[4, 16]
  return %y
}
"""


def test_a_module_for_some_items_has_their_part_of_everything():
    part = items_of(parse_module(NET), 1, 4)
    verify_module(part)
    assert (
        print_module(part)
        == """\
const @w : f32[2, 1] = [0.5, -2.0]
const @rows : f32[3, 1] = [2.0, 3.0, 4.0]
func @main(%x: f32[3, 4, 4, 2], %scale: f32[1]) {
  %product = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[3, 4, 4, 1]
  %act = relu(%product) : f32[3, 4, 4, 1]
  %flat = reshape(%act) {shape = (3, 16)} : f32[3, 16]
  %soft = softmax(%flat) {axis = -1} : f32[3, 16]
  %twice = add(%scale, %scale) : f32[1]
  %scaled = mul(%soft, %twice) : f32[3, 16]
  %y = add(%scaled, @rows) : f32[3, 16]
  return %y
}
"""
    )


def test_the_items_of_all_devices_are_those_of_the_whole():
    module = parse_module(NET)
    x, scale = random_inputs(module.main)
    (whole,) = run_function(module.main, [x, scale])
    assert batch_of(module.main) == 4
    parts = [
        run_function(items_of(module, a, b).main, [x[a:b], scale])[0] for a, b in ((0, 1), (1, 4))
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def refused(text: str) -> str:
    module = parse_module(text)
    with pytest.raises(UnsupportedError) as error:
        items_of(module, 0, batch_of(module.main) // 2)
    return error.value.what.removeprefix("the batch cannot be split over devices: ")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('%y = softmax(%x) {axis = 0} : f32[4, 4] from "soft"', "at 'soft', items"),
        (
            "%m = reduce_mean(%x) {axes = (0,), keepdims = true} : f32[1, 4]\n"
            '%y = sub(%x, %m) : f32[4, 4] from "centred"',
            "at 'm', items",
        ),
        ('%y = transpose(%x) {perm = (1, 0)} : f32[4, 4] from "turned"', "at 'x', items"),
    ],
)
def test_items_that_depend_on_each_other_are_refused(body, why):
    text = f"func @main(%x: f32[4, 4]) {{\n{body}\nreturn %y\n}}\n"
    assert refused(text) == f"{why} depend on each other"


def test_outputs_without_a_common_batch_are_refused():
    text = "func @main(%x: f32[4], %z: f32[2]) {\nreturn %x, %z\n}\n"
    assert refused(text) == "outputs have different first extents"


def test_a_batch_of_any_size_is_refused():
    text = "dim n : 1..8\nfunc @main(%x: f32[n]) {\nreturn %x\n}\n"
    assert refused(text) == "its extent is not known"


def test_a_model_with_state_is_refused():
    text = "state @s : f32[4]\nfunc @main(%x: f32[4]) {\n  store %x to @s\n  return %x\n}\n"
    assert refused(text) == "the model has state"
