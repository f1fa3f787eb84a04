"""Caches of attention are kept in fewer bits."""

import inspect
import re

import numpy as np
import pytest

from afterglow.graph import Module, parse_module, print_module, run_function, verify_module
from afterglow.transforms.narrow_caches import narrow_caches
from afterglow.types import Array
from afterglow.types.dtype import DType, f16, i8

OPTIONS = "{scale = 1.0, window = 0, softcap = 0.0}"
CACHED = """
    state @k : f32[1, 1, 4, 2]
    state @v : f32[1, 1, 4, 2]
    func @main(%q: f32[3, 2, 2], %rows: f32[3, 1, 2], %at: i32[3], %of: i32[3]) {
      %keys = write_rows(@k, %rows, %at, %of) : f32[1, 1, 4, 2]
      %values = write_rows(@v, %rows, %at, %of) : f32[1, 1, 4, 2]
      %y = cached_attention(%q, %keys, %values, %at, %of) OPTIONS : f32[3, 2, 2]
      store %keys to @k
      store %values to @v
      return %y
    }
"""


def cached(*changes: tuple[str, str]) -> Module:
    text = CACHED.replace("OPTIONS", OPTIONS)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_module(inspect.cleandoc(text))


def narrowed(dtype: DType) -> Module:
    module = cached()
    assert narrow_caches(module, dtype)
    verify_module(module)
    return module


def shortened(module: Module) -> str:
    """The text of a module without the attributes that are long."""
    text = re.sub(r"{dtype = [^}]*}", "CAST", print_module(module).strip())
    return text.replace(OPTIONS, "OPTIONS")


def run(module: Module, rows: Array) -> tuple[Array, dict[str, Array]]:
    """What the module computes for a query of ones, and the states that it leaves."""
    states = {s.name: np.zeros(s.type.shape, s.type.dtype.numpy) for s in module.main.states()}
    query, at = np.ones((3, 2, 2), np.float32), np.arange(3, dtype=np.int32)
    (y,) = run_function(module.main, [query, rows, at, np.zeros(3, np.int32)], states)
    return y, states


def test_rows_are_cast_before_they_are_written() -> None:
    after = """
        state @k : f16[1, 1, 4, 2]
        state @v : f16[1, 1, 4, 2]
        func @main(%q: f32[3, 2, 2], %rows: f32[3, 1, 2], %at: i32[3], %of: i32[3]) {
          %keys_1 = cast(%rows) CAST : f16[3, 1, 2]
          %keys = write_rows(@k, %keys_1, %at, %of) : f16[1, 1, 4, 2]
          %values_1 = cast(%rows) CAST : f16[3, 1, 2]
          %values = write_rows(@v, %values_1, %at, %of) : f16[1, 1, 4, 2]
          %y = cached_attention(%q, %keys, %values, %at, %of) OPTIONS : f32[3, 2, 2]
          store %keys to @k
          store %values to @v
          return %y
        }
    """
    assert shortened(narrowed(f16)) == inspect.cleandoc(after)


def test_rows_of_integers_have_scales_in_states_of_their_own() -> None:
    text = shortened(narrowed(i8))
    keys = """
        state @k : i8[1, 1, 4, 2]
        state @k.scales : f32[1, 1, 4, 1]
          %keys_1 = abs(%rows) : f32[3, 1, 2]
          %keys_2 = reduce_max(%keys_1) {axes = (2,), keepdims = true} : f32[3, 1, 1]
          %keys_3 = less(%keys_2, @scalar) : bool[3, 1, 1]
          %keys_4 = div(%keys_2, @scalar_1) : f32[3, 1, 1]
          %keys_5 = where(%keys_3, @scalar_2, %keys_4) : f32[3, 1, 1]
          %keys_6 = div(%rows, %keys_5) : f32[3, 1, 2]
          %keys_7 = round(%keys_6) : f32[3, 1, 2]
          %keys_8 = cast(%keys_7) CAST : i8[3, 1, 2]
          %keys = write_rows(@k, %keys_8, %at, %of) : i8[1, 1, 4, 2]
          %keys_10 = write_rows(@k.scales, %keys_5, %at, %of) : f32[1, 1, 4, 1]
          store %keys to @k
          store %keys_10 to @k.scales
    """
    mine = [line for line in text.splitlines() if re.search(r"@k|^  %keys", line)]
    assert mine == inspect.cleandoc(keys).splitlines()
    operands = "%q, %keys, %values, %at, %of, %keys_10, %values_10"
    assert f"%y = cached_attention({operands}) OPTIONS" in text


def test_integers_are_multiples_of_a_share_of_the_largest_number() -> None:
    rows = np.float32([[[127, -2.5]], [[0, 0]], [[-0.5, 0.25]]])
    expected, _ = run(cached(), rows)
    y, states = run(narrowed(i8), rows)
    np.testing.assert_array_equal(states["k"][0, 0], [[127, -2], [0, 0], [-127, 64], [0, 0]])
    scales = np.float32([1, 1, 0.5 / 127, 0])
    np.testing.assert_array_equal(states["k.scales"][0, 0, :, 0], scales)
    np.testing.assert_allclose(y, expected, atol=0.6)


def test_what_is_not_finite_is_not_hidden() -> None:
    y, _ = run(narrowed(i8), np.float32([[[1, 2]], [[np.nan, 1]], [[1, 1]]]))
    assert np.isfinite(y[0]).all()
    assert np.isnan(y[1]).all()


@pytest.mark.parametrize(
    "change",
    [
        ("return %y\n", "return %y, %keys\n"),
        ("      store %keys to @k\n", ""),
        ("%q, %keys, %values", "%q, %keys, %keys"),
        ("f32", "f64"),
    ],
    ids=["returned", "not kept", "shared", "other type"],
)
def test_other_caches_stay(change: tuple[str, str]) -> None:
    module = cached(change)
    before = print_module(module)
    assert not narrow_caches(module, f16)
    assert print_module(module) == before
