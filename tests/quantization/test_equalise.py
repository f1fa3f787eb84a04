"""Channels scaled to similar ranges."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from afterglow.graph import Module, parse_module, print_module, run_function, verify_module
from afterglow.quantization.equalise import Equalise, equalising_exponents
from afterglow.quantization.observation import Observation
from afterglow.testing.arrays import random_inputs
from afterglow.types import Array

CONV = "strides = (1, 1), pads = (1, 1, 1, 1), dilations = (1, 1)"
PRODUCT = "transpose_lhs = false, transpose_rhs = false"


def uneven(*shape: int, axis: int, seed: int = 0) -> Array:
    """Weights whose channels along an axis differ by orders of magnitude."""
    rng = np.random.default_rng(seed)
    sizes = 2.0 ** rng.integers(-6, 6, shape[axis])
    along = sizes.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    return (rng.normal(size=shape) * along).astype(np.float32)


def module(text: str, **constants: Array) -> Module:
    """A program, with its constants filled in."""
    names = [
        f"const @{name} : f32{[*data.shape]} = {data.ravel().tolist()}"
        for name, data in constants.items()
    ]
    found = parse_module("\n".join([*names, inspect.cleandoc(text)]))
    verify_module(found)
    return found


def computed(found: Module, x: list[Array]) -> dict[str, Array]:
    """All that a program computes, by name."""
    probe = found.clone()
    values = [value for node in probe.main.nodes for value in node.results]
    for value in values:
        probe.main.output(f"probe {value.name}", value)
    arrays = run_function(probe.main, x)[-len(values) :]
    return {value.name: array for value, array in zip(values, arrays, strict=True)}


def ranges(found: Module, name: str, x: list[Array]) -> Array:
    """How far the channels of a value reach."""
    y = computed(found, x)[name]
    return np.abs(y).reshape(-1, y.shape[-1]).max(0)


def equalising(found: Module, x: list[Array] | None = None, *, gains: bool = False) -> Equalise:
    """The pass, with observations of what a program computes."""
    arrays = computed(found, random_inputs(found.main) if x is None else x)
    seen = {name: Observation.of(array) for name, array in arrays.items()}
    return Equalise(seen, gains=gains)


def check_equalises(found: Module, name: str, largest: float = 0.6) -> None:
    """The results keep their bits, and the channels of a value become more alike."""
    x = random_inputs(found.main)
    want, before = run_function(found.main, x), ranges(found, name, x)
    assert equalising(found, x).run(found.main)
    verify_module(found)
    for expected, got in zip(want, run_function(found.main, x), strict=True):
        np.testing.assert_array_equal(expected, got)
    after = ranges(found, name, x)
    assert np.log2(after).std() < largest * np.log2(before).std()


def test_large_channels_shrink_and_their_weights_grow() -> None:
    first, second = np.array([16.0, 1.0, 1.0]), np.array([1.0, 1.0, 4.0])
    assert equalising_exponents(first, second).tolist() == [2, 0, -1]
    assert equalising_exponents(first, second, 1.0).tolist() == [4, 0, 0]
    assert equalising_exponents(first, second, 1.0, 0.5).tolist() == [2, 0, 0]
    assert equalising_exponents(first, second, 0.0).tolist() == [0, 0, -2]
    first, second = np.array([1e9, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0, 1.0])
    assert equalising_exponents(first, second).tolist() == [6, 0, 0, -6]
    assert equalising_exponents(np.zeros(2), np.ones(2)).tolist() == [0, 0]


def test_convolutions_with_a_rectifier_between() -> None:
    found = module(
        f"""
        func @main(%x: f32[1, 6, 6, 3]) {{
          %a = conv(%x, @v, @b) {{{CONV}, groups = 1}} : f32[1, 6, 6, 8]
          %r = relu(%a) : f32[1, 6, 6, 8]
          %y = conv(%r, @w) {{{CONV}, groups = 1}} : f32[1, 6, 6, 4]
          return %y
        }}
        """,
        v=uneven(8, 3, 3, 3, axis=0),
        b=np.zeros(8, np.float32),
        w=uneven(4, 3, 3, 8, axis=0, seed=1),
    )
    check_equalises(found, "r")


def test_depthwise_and_grouped_convolutions_follow_their_channels() -> None:
    found = module(
        f"""
        func @main(%x: f32[1, 6, 6, 3]) {{
          %a = conv(%x, @v) {{{CONV}, groups = 1}} : f32[1, 6, 6, 8]
          %r = relu(%a) : f32[1, 6, 6, 8]
          %d = conv(%r, @d) {{{CONV}, groups = 8}} : f32[1, 6, 6, 8]
          %s = leaky_relu(%d) {{alpha = 0.25}} : f32[1, 6, 6, 8]
          %y = conv(%s, @w) {{{CONV}, groups = 2}} : f32[1, 6, 6, 6]
          return %y
        }}
        """,
        v=uneven(8, 3, 3, 3, axis=0),
        d=uneven(8, 3, 3, 1, axis=0, seed=1),
        w=uneven(6, 3, 3, 4, axis=0, seed=2),
    )
    check_equalises(found, "s", 0.7)


@pytest.mark.parametrize("transposed", [False, True])
def test_products_with_biases(transposed: bool) -> None:
    attributes = PRODUCT.replace("rhs = false", f"rhs = {str(transposed).lower()}")
    v, w = uneven(5, 8, axis=1), uneven(8, 3, axis=1, seed=1)
    found = module(
        f"""
        func @main(%x: f32[7, 5]) {{
          %a = matmul(%x, @v) {{{attributes}}} : f32[7, 8]
          %c = add(%a, @b) : f32[7, 8]
          %r = relu(%c) : f32[7, 8]
          %y = matmul(%r, @w) {{{attributes}}} : f32[7, 3]
          return %y
        }}
        """,
        v=v.T.copy() if transposed else v,
        b=np.ones(8, np.float32) * 0.01,
        w=w.T.copy() if transposed else w,
    )
    check_equalises(found, "r")


def test_a_norm_and_all_products_that_read_it() -> None:
    found = module(
        f"""
        func @main(%x: f32[7, 8]) {{
          %n = layer_norm(%x, @g, @b) {{axis = -1, epsilon = 1e-05}} : f32[7, 8]
          %q = matmul(%n, @w) {{{PRODUCT}}} : f32[7, 3]
          %k = matmul(%n, @u) {{{PRODUCT}}} : f32[7, 3]
          %y = add(%q, %k) : f32[7, 3]
          return %y
        }}
        """,
        g=uneven(8, axis=0),
        b=uneven(8, axis=0) * 0.1,
        w=uneven(8, 3, axis=1, seed=1),
        u=uneven(8, 3, axis=1, seed=2),
    )
    check_equalises(found, "n")


def test_vectors_that_several_layers_share_become_their_own() -> None:
    found = module(
        f"""
        func @main(%x: f32[7, 4]) {{
          %n = layer_norm(%x, @g, @g) {{axis = -1, epsilon = 1e-05}} : f32[7, 4]
          %a = matmul(%n, @w) {{{PRODUCT}}} : f32[7, 4]
          %m = layer_norm(%a, @g, @g) {{axis = -1, epsilon = 1e-05}} : f32[7, 4]
          %y = matmul(%m, @u) {{{PRODUCT}}} : f32[7, 4]
          return %y
        }}
        """,
        g=np.array([0.1, 1, 16, 1], np.float32),
        w=uneven(4, 4, axis=1),
        u=uneven(4, 4, axis=1, seed=1),
    )
    check_equalises(found, "m")


def test_pools_and_reshapes_of_whole_channels_lie_between() -> None:
    found = module(
        f"""
        func @main(%x: f32[1, 6, 6, 3]) {{
          %a = conv(%x, @v) {{{CONV}, groups = 1}} : f32[1, 6, 6, 8]
          %m = reduce_mean(%a) {{axes = (1, 2), keepdims = true}} : f32[1, 1, 1, 8]
          %f = reshape(%m) {{shape = (1, 8)}} : f32[1, 8]
          %y = matmul(%f, @w) {{{PRODUCT}}} : f32[1, 3]
          return %y
        }}
        """,
        v=uneven(8, 3, 3, 3, axis=0),
        w=uneven(8, 3, axis=1, seed=1),
    )
    check_equalises(found, "f")


def test_observed_ranges_are_preferred() -> None:
    text = f"""
        func @main(%x: f32[50, 5]) {{
          %a = matmul(%x, @v) {{{PRODUCT}}} : f32[50, 8]
          %y = matmul(%a, @w) {{{PRODUCT}}} : f32[50, 3]
          return %y
        }}
    """
    found = module(text, v=uneven(5, 8, axis=0), w=uneven(8, 3, axis=1))
    high = np.array([1, 1, 1, 64, 1, 1, 1, 1], np.float32)
    assert Equalise({"a": Observation.of(np.stack([-high, high]))}).run(found.main)
    before = uneven(5, 8, axis=0)
    factors = (before / found.constants["v"].data)[0]
    assert factors[3] == max(factors)
    assert factors[3] >= 4


def test_equal_channels_are_left_alone() -> None:
    found = module(
        f"""
        func @main(%x: f32[7, 4]) {{
          %a = matmul(%x, @v) {{{PRODUCT}}} : f32[7, 4]
          %y = matmul(%a, @w) {{{PRODUCT}}} : f32[7, 4]
          return %y
        }}
        """,
        v=np.eye(4, dtype=np.float32),
        w=np.eye(4, dtype=np.float32),
    )
    before = print_module(found)
    assert not equalising(found).run(found.main)
    assert print_module(found) == before


@pytest.mark.parametrize(
    "between",
    [
        "sigmoid(%a) : f32[7, 4]",
        "clip(%a) {low = 1.0, high = 6.0} : f32[7, 4]",
        "max(%a, @c) : f32[7, 4]",
        "mul(%a, %a) : f32[7, 4]",
        "add(%a, %x) : f32[7, 4]",
        "transpose(%a) {perm = (1, 0)} : f32[4, 7]",
        "reshape(%a) {shape = (4, 7)} : f32[4, 7]",
    ],
)
def test_nothing_else_lies_between(between: str) -> None:
    rows, depth = (4, 7) if "f32[4, 7]" in between else (7, 4)
    found = module(
        f"""
        func @main(%x: f32[7, 4]) {{
          %a = matmul(%x, @v) {{{PRODUCT}}} : f32[7, 4]
          %r = {between}
          %y = matmul(%r, @w) {{{PRODUCT}}} : f32[{rows}, 4]
          return %y
        }}
        """,
        v=uneven(4, 4, axis=1),
        w=uneven(depth, 4, axis=1),
        c=np.ones(4, np.float32),
    )
    assert not equalising(found).run(found.main)


@pytest.mark.parametrize("returned", ["%y, %a", "%y"])
def test_shared_weights_and_results_stay_as_they_are(returned: str) -> None:
    second = "@v" if returned == "%y" else "@w"
    found = module(
        f"""
        func @main(%x: f32[7, 4]) {{
          %a = matmul(%x, @v) {{{PRODUCT}}} : f32[7, 4]
          %y = matmul(%a, {second}) {{{PRODUCT}}} : f32[7, 4]
          return {returned}
        }}
        """,
        v=uneven(4, 4, axis=1),
        w=uneven(4, 4, axis=1),
    )
    assert not equalising(found).run(found.main)


def test_the_pass_tells_which_values_it_scaled_and_by_what() -> None:
    found = module(
        f"""
        func @main(%x: f32[7, 4]) {{
          %a = matmul(%x, @v) {{{PRODUCT}}} : f32[7, 4]
          %r = relu(%a) : f32[7, 4]
          %y = matmul(%r, @w) {{{PRODUCT}}} : f32[7, 4]
          return %y
        }}
        """,
        v=uneven(4, 4, axis=1),
        w=np.eye(4, dtype=np.float32),
    )
    (x,) = random_inputs(found.main)
    before = ranges(found, "r", [x])
    equalise = equalising(found, [x])
    equalise.run(found.main)
    assert [*equalise.exponents] == ["a", "r"]
    after = np.ldexp(before, -equalise.exponents["r"])
    np.testing.assert_array_equal(ranges(found, "r", [x]), after)


def test_terms_of_a_sum_share_their_factors() -> None:
    """A residual block: its weight is divided for what it computes, and multiplied for x."""
    found = module(
        f"""
        func @main(%x: f32[7, 5]) {{
          %a = matmul(%x, @v) {{{PRODUCT}}} : f32[7, 8]
          %b = matmul(%a, @u) {{{PRODUCT}}} : f32[7, 8]
          %r = relu(%b) : f32[7, 8]
          %s = add(%a, %r) : f32[7, 8]
          %y = matmul(%s, @w) {{{PRODUCT}}} : f32[7, 3]
          return %y
        }}
        """,
        v=uneven(5, 8, axis=1),
        u=np.eye(8, dtype=np.float32),
        w=uneven(8, 3, axis=1, seed=2),
    )
    check_equalises(found, "s")


def test_parts_of_a_concatenation_are_scaled_each_for_itself() -> None:
    found = module(
        f"""
        func @main(%x: f32[7, 5]) {{
          %a = matmul(%x, @u) {{{PRODUCT}}} : f32[7, 4]
          %b = matmul(%x, @v) {{{PRODUCT}}} : f32[7, 4]
          %s = sigmoid(%x) : f32[7, 5]
          %c = concat(%a, %s, %b) {{axis = -1}} : f32[7, 13]
          %y = matmul(%c, @w) {{{PRODUCT}}} : f32[7, 3]
          return %y
        }}
        """,
        u=uneven(5, 4, axis=1),
        v=uneven(5, 4, axis=1, seed=1),
        w=uneven(13, 3, axis=1, seed=2),
    )
    equalise = equalising(found)
    (x,) = random_inputs(found.main)
    (want,) = run_function(found.main, [x])
    assert equalise.run(found.main)
    np.testing.assert_array_equal(run_function(found.main, [x])[0], want)
    parts = np.split(equalise.exponents["c"], [4, 9])
    assert not parts[1].any()
    for part, name in zip(parts[::2], ("a", "b"), strict=True):
        np.testing.assert_array_equal(part, equalise.exponents[name])


def test_channels_are_scaled_up_to_the_bound_of_a_clip() -> None:
    found = module(
        f"""
        func @main(%x: f32[50, 4]) {{
          %a = matmul(%x, @v) {{{PRODUCT}}} : f32[50, 4]
          %r = clip(%a) {{low = 0.0, high = 6.0}} : f32[50, 4]
          %y = matmul(%r, @w) {{{PRODUCT}}} : f32[50, 4]
          return %y
        }}
        """,
        v=np.diag([16.0, 3.0, 0.25, 0.0625]).astype(np.float32),
        w=np.ones((4, 4), np.float32),
    )
    x = random_inputs(found.main)
    want, high = run_function(found.main, x), ranges(found, "r", x)
    equalise = equalising(found, x)
    assert equalise.run(found.main)
    np.testing.assert_array_equal(run_function(found.main, x), want)
    exponents = equalise.exponents["r"]
    assert exponents[0] == 0
    assert exponents[-1] < 0
    assert (np.ldexp(high, -exponents) <= 6).all()


def test_what_was_not_observed_is_left_alone() -> None:
    found = module(
        f"""
        func @main(%x: f32[7, 4]) {{
          %a = matmul(%x, @v) {{{PRODUCT}}} : f32[7, 4]
          %y = matmul(%a, @w) {{{PRODUCT}}} : f32[7, 4]
          return %y
        }}
        """,
        v=uneven(4, 4, axis=1),
        w=np.eye(4, dtype=np.float32),
    )
    assert not Equalise({}).run(found.main)
    assert not Equalise({"a": Observation.of(np.ones((7, 5)))}).run(found.main)


SWISH = f"""
    func @main(%x: f32[50, 4]) {{
      %a = matmul(%x, @v) {{{PRODUCT}}} : f32[50, 8]
      %h = hard_swish(%a) : f32[50, 8]
      %y = matmul(%h, @w) {{{PRODUCT}}} : f32[50, 4]
      return %y
    }}
"""


def test_what_does_not_scale_is_multiplied_afterwards() -> None:
    v = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    found = module(
        SWISH, v=v * 4.0 ** np.arange(8, dtype=np.float32), w=np.ones((8, 4), np.float32)
    )
    x = random_inputs(found.main)
    want = run_function(found.main, x)
    equalise = equalising(found, x, gains=True)
    before = equalise.observations["h"]
    assert equalise.run(found.main)
    verify_module(found)
    np.testing.assert_array_equal(run_function(found.main, x), want)
    assert equalise.sources == {"h.scaled": "h"}
    assert [*equalise.exponents] == ["h.scaled"]
    assert ranges(found, "h.scaled", x).max() < before.high / 2


def test_gains_that_do_not_help_are_left_out() -> None:
    rng = np.random.default_rng(0)
    found = module(
        SWISH,
        v=rng.uniform(0.9, 1, (4, 8)).astype(np.float32),
        w=rng.uniform(0.9, 1, (8, 4)).astype(np.float32),
    )
    before = print_module(found)
    assert not equalising(found, gains=True).run(found.main)
    assert print_module(found) == before
