"""The figures of a device: looked up, written and read."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf

import pytest

from afterglow.runtime.device import DeviceInfo
from afterglow.runtime.rates import MemoryLevel, Rates
from afterglow.support.errors import UsageError

RATES = Rates(
    flops=1e11,
    levels=(MemoryLevel(1 << 10, 4e10), MemoryLevel(1 << 20, 1e10)),
    read_levels=(MemoryLevel(1 << 20, 2e10),),
    products={"conv/f32/direct": 4e10, "conv/f32/winograd": 9e10, "matmul/f32/direct": 1e11},
    elements={"exp": 1e9, "other": 5e9},
    step_seconds=1e-6,
    run_seconds=1e-5,
)


def test_rates_are_json() -> None:
    assert Rates.of_json(json.loads(json.dumps(RATES.to_json()))) == RATES
    apart = replace(RATES, transfer_seconds=1e-5, transfer_bandwidth=1e9)
    assert Rates.of_json(json.loads(json.dumps(apart.to_json()))) == apart


@pytest.mark.parametrize("wrong", [{}, {"flops": "fast"}, {"levels": []}, {"products": 3}, []])
def test_what_are_no_rates_is_an_error(wrong: object) -> None:
    data = {**RATES.to_json(), **wrong} if isinstance(wrong, dict) and wrong else wrong
    with pytest.raises(UsageError, match="these are not the rates of a device"):
        Rates.of_json(data)  # type: ignore[arg-type]


def test_a_kind_that_was_not_measured_is_as_fast_as_those_most_like_it() -> None:
    assert RATES.product_rate("conv/f32/winograd") == pytest.approx(9e10)
    assert RATES.product_rate("conv/f32/winograd/constant") == pytest.approx(9e10)
    narrow = {**RATES.products, "conv/f32/direct/narrow": 1e9}
    assert replace(RATES, products=narrow).product_rate("conv/f32/direct") == 4e10
    assert RATES.product_rate("conv/f32/strassen") == pytest.approx(6e10)
    assert RATES.product_rate("matmul/i8/direct") == pytest.approx(1e11)
    assert RATES.product_rate("attention/f32/by-block") == RATES.flops


def test_an_op_that_was_not_measured_is_as_fast_as_others() -> None:
    assert [RATES.element_rate(op) for op in ("exp", "sinh")] == [1e9, 5e9]
    assert RATES.element_rate("sinh", "exp") == 1e9
    assert replace(RATES, elements={}).element_rate("exp") == inf


def test_bandwidths_depend_on_the_working_set() -> None:
    measured = [RATES.bandwidth(1 << power) for power in (4, 10, 15, 20, 30)]
    assert measured == pytest.approx([4e10, 4e10, 2e10, 1e10, 1e10])
    assert RATES.read_bandwidth(1 << 30) == 2e10
    assert replace(RATES, read_levels=()).read_bandwidth(1 << 30) == 1e10


def test_a_transfer_takes_its_latency_and_its_bytes() -> None:
    assert RATES.transfer(1 << 20) == 0.0
    apart = replace(RATES, transfer_seconds=1e-5, transfer_bandwidth=1e9)
    assert apart.transfer(10_000) == pytest.approx(2e-5)


def test_a_device_states_its_rates_and_is_described_by_them() -> None:
    info = DeviceInfo("chip", "a chip", 1 << 30, 1e10, 2e12, 1e9, transfer_latency=1e-5)
    assert Rates.stated(info).described(info) == info
    measured = RATES.described(info)
    assert (measured.flops, measured.bandwidth, measured.launch_seconds) == (1e11, 1e10, 1e-6)
    assert (measured.transfer_bandwidth, measured.transfer_latency) == (inf, 0.0)
