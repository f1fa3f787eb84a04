"""Rates from times: what was put into the times of probes comes out again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.partition import probes
from afterglow.partition.estimate import estimate_seconds
from afterglow.partition.fit import NOMINAL, TimedProbe, fit_rates
from afterglow.partition.probes import Probe
from afterglow.runtime.rates import MemoryLevel, Rates

TRUE = Rates(
    flops=2e11,
    levels=tuple(MemoryLevel(n, 1e11) for n in probes.BANDWIDTHS),
    read_levels=tuple(MemoryLevel(n, 5e10) for n in probes.READING),
    products={"conv": 1e11, "matmul": 2e11, "lstm": 5e10, "quantized_conv": 4e11},
    elements={"exp": 2e9, "softmax": 1e9, "quantize_linear": 8e9, "other": 1e11},
    step_seconds=1e-7,
    run_seconds=5e-6,
)


LARGEST = [*probes.READING.values()][-1]
"""A probe that takes longer to make than all others."""


@pytest.fixture(scope="module")
def timed() -> Mapping[Probe, TimedProbe]:
    """All probes, with the times that they have by those rates."""
    stages, found = Stages(Options(threads=1)), {}
    for probe in probes.PROBES:
        if probe is LARGEST:
            continue
        program, _ = stages.plan(stages.lower(stages.optimise(probe.module())))
        found[probe] = TimedProbe(program, estimate_seconds(program, TRUE))
    return found


def test_the_rates_behind_times_are_found(timed: Mapping[Probe, TimedProbe]) -> None:
    found = fit_rates(timed)
    assert found.run_seconds == pytest.approx(TRUE.run_seconds, rel=0.02)
    assert found.step_seconds == pytest.approx(TRUE.step_seconds, rel=0.1)
    assert [level.bandwidth for level in found.levels] == pytest.approx([1e11] * 5, rel=0.2)
    assert [level.bandwidth for level in found.read_levels] == pytest.approx([5e10] * 3, rel=0.1)
    for op in ("exp", "softmax", "quantize_linear"):
        assert found.elements[op] == pytest.approx(TRUE.elements[op], rel=0.1)
    for kind in (
        "conv/f32/direct",
        "matmul/f32/direct",
        "lstm/f32/direct",
        "quantized_conv/i8/direct",
    ):
        true = TRUE.product_rate(kind)
        assert found.product_rate(kind) == pytest.approx(true, rel=0.1), kind


def test_probes_that_could_not_be_run_are_left_out(timed: Mapping[Probe, TimedProbe]) -> None:
    assert fit_rates({}) == NOMINAL
    few = {probe: timed[probe] for probe in (probes.EMPTY_RUN, probes.CHAIN, probes.PRODUCTS[3])}
    found = fit_rates(few)
    assert found.levels == NOMINAL.levels
    assert [*found.products] == ["conv/f32/direct/constant"]
    assert found.flops == found.products["conv/f32/direct/constant"]


def test_smaller_working_sets_are_no_slower(timed: Mapping[Probe, TimedProbe]) -> None:
    least = next(iter(probes.BANDWIDTHS.values()))
    busy = {**timed, least: TimedProbe(timed[least].program, 1.0)}
    levels = fit_rates(busy).levels
    assert levels[0].bandwidth == levels[1].bandwidth
