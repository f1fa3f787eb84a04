"""The rates of a device, from the times of the probes that were run on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import geometric_mean, quantiles

from afterglow.instr import Instr, Program, ops_of
from afterglow.partition import probes
from afterglow.partition.estimate import (
    elements_of,
    estimate_steps,
    family_of,
    kind_of,
    plan_of,
    product_of,
    product_work,
    runs_on_host,
)
from afterglow.partition.probes import Probe
from afterglow.runtime.rates import OTHER, MemoryLevel, Rates
from afterglow.support.lazy_dataclass import dataclass

NOMINAL = Rates(flops=1e10, levels=(MemoryLevel(1 << 30, 1e10),))
"""What a device is taken for that none of the programs could be run on."""
LEAST_SECONDS = 1e-9
"""What is shorter cannot be told from nothing."""
MOST_ELEMENTS = 1e12
"""Elements a second of the cheapest ops at most: more cannot be told from none."""
MAIN_SHARE = 0.5
"""The share of a program's time that a step has at least to be judged by it."""


@dataclass(frozen=True)
class TimedProbe:
    """The planned program of a probe, and the seconds of its fastest run."""

    program: Program
    seconds: float


@dataclass(frozen=True)
class MainStep:
    """The step of a probe that computes its op."""

    step: Instr
    seconds: float
    moving: float
    """The part of it in which operands and results are moved, by the bandwidths known so far."""


def fit_rates(timed: Mapping[Probe, TimedProbe]) -> Rates:
    """The rates by which the probes take as long as they did.

    Overheads and bandwidths come first: the time of an op is what is left without them.
    """
    fit = _Fit(timed)
    rates = fit.overheads()
    levels = fit.levels(rates, probes.BANDWIDTHS) or rates.levels
    rates = replace(rates, levels=levels, read_levels=fit.levels(rates, probes.READING))
    rates = replace(rates, elements=fit.elements(rates))
    products = fit.products(rates)
    flops = max((rate for kind, rate in products.items() if "/f32/" in kind), default=rates.flops)
    return replace(rates, products=products, flops=flops)


class _Fit:
    """The rates of each kind, given those that are simpler."""

    def __init__(self, timed: Mapping[Probe, TimedProbe]) -> None:
        self.timed = timed

    def overheads(self) -> Rates:
        """What runs and steps take besides their work."""
        run, chain = self.timed.get(probes.EMPTY_RUN), self.timed.get(probes.CHAIN)
        if run is None or chain is None:
            return NOMINAL
        step = (chain.seconds - run.seconds) / (probes.CHAIN.repeat - 1)
        step = max(step, LEAST_SECONDS)
        every_run = max(run.seconds - step, LEAST_SECONDS)
        return replace(
            NOMINAL, step_seconds=step, run_seconds=every_run, host_step_seconds=every_run
        )

    def levels(self, rates: Rates, sized: Mapping[int, Probe]) -> tuple[MemoryLevel, ...]:
        """The bandwidth of each size of working set; smaller ones are no slower."""
        found: list[MemoryLevel] = []
        for nbytes, probe in reversed([*sized.items()]):
            if probe in self.timed:
                bandwidth = nbytes / _net(self.timed[probe].seconds, rates)
                slowest = found[-1].bandwidth if found else 0.0
                found.append(MemoryLevel(nbytes, max(bandwidth, slowest)))
        return tuple(reversed(found))

    def elements(self, rates: Rates) -> dict[str, float]:
        """Elements a second by op, once they are at hand; none is faster than the cheapest."""
        cheap = self._cheapest(rates)
        found: dict[str, float] = {}
        families: dict[str, list[float]] = {}
        for probe in probes.ELEMENTS:
            for main in self._main(probe, rates):
                elements = elements_of(ops_of(main.step)[0])
                rate = elements / max(main.seconds - main.moving, elements / cheap)
                found[probe.op.mnemonic] = rate
                families.setdefault(family_of(probe.op), []).append(rate)
        if len(found) > 1:
            found[OTHER] = quantiles(found.values(), n=4)[0]
        return {**found, **{name: geometric_mean(each) for name, each in families.items()}}

    def _cheapest(self, rates: Rates) -> float:
        """Elements a second of the cheapest op, of which many are one step."""
        for main in self._main(probes.CHEAP, rates):
            computed = max(main.seconds - main.moving, LEAST_SECONDS)
            return min(sum(map(elements_of, ops_of(main.step))) / computed, MOST_ELEMENTS)
        return MOST_ELEMENTS

    def products(self, rates: Rates) -> dict[str, float]:
        """FLOPs a second by kind of kernel."""
        found: dict[str, list[float]] = {}
        for probe in probes.PRODUCTS:
            for main in self._main(probe, rates):
                product, _ = product_of(main.step)
                if product is not None:
                    kind = kind_of(product, plan_of(main.step))
                    found.setdefault(kind, []).append(product_work(main.step) / main.seconds)
        return {kind: geometric_mean(each) for kind, each in found.items()}

    def _main(self, probe: Probe, rates: Rates) -> Iterator[MainStep]:
        """The step that computes the op; of several equal ones the last, with the mean of seconds.

        Nothing if it is computed by steps of several kinds, or others take as long.
        """
        timed = self.timed.get(probe)
        if timed is None:
            return
        body = timed.program.body
        main = [step for step in body if any(member.op == probe.op for member in ops_of(step))]
        if len(main) not in (1, probe.repeat) or runs_on_host(main[-1]):
            return
        estimated = dict(zip(body, estimate_steps(timed.program, rates), strict=True))
        moving = [estimated.pop(step) - rates.step_seconds for step in main][-1]
        whole = timed.seconds - rates.run_seconds
        seconds = whole - sum(estimated.values())
        if seconds > MAIN_SHARE * whole:
            net = max(seconds / len(main) - rates.step_seconds, LEAST_SECONDS)
            yield MainStep(main[-1], net, moving)


def _net(seconds: float, rates: Rates) -> float:
    """What is left of a run of one step without its overheads."""
    return max(seconds - rates.run_seconds - rates.step_seconds, LEAST_SECONDS)
