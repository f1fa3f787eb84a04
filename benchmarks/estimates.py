"""Compare the estimated time of models with the measured one.

    python -m benchmarks.estimates MODEL.onnx… [--backend NAME] [--target NAME] [--threads N]
        [--shape INPUT=1,3,32,32] [--extent N] [--seconds S] [--measure] [--kinds]

The rates of the device are measured once, by small programs that have nothing to do with the
models, and cached; `--measure` measures them anew. Then each model is planned, its time is
estimated, and it is run for some seconds: the fastest run counts. On one thread of the CPU,
time of other processes does not count in long runs. Dynamic dimensions of inputs
without `--shape` have the extent of `--extent`. With `--kinds`, the time of each kind of kernel is
compared as well, if the backend can time steps: where an estimate is wrong, this says which rate
is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import click

from afterglow.backends.capabilities import Profiling
from afterglow.backends.sample_inputs import sample_inputs
from afterglow.driver.device_rates import rates_of
from afterglow.driver.devices import find_device
from afterglow.driver.environment import cache_folder
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.instr import Instr, Program, interface_of, ops_of
from afterglow.partition.estimate import (
    estimate_seconds,
    estimate_steps,
    kind_of,
    plan_of,
    product_of,
)
from afterglow.partition.measure import measure_steps
from afterglow.runtime import TensorInfo
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.growth import full_states
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.rates import Rates
from afterglow.support.errors import AfterglowError
from afterglow.types.extent import is_ranged
from benchmarks.markdown import milliseconds, table

LEAST_RUNS = 5
LONG = 2e-3
"""Seconds of a run that others likely interrupt."""


@dataclass(frozen=True)
class Compared:
    """A model with its estimated and measured seconds."""

    name: str
    program: Program
    estimated: float
    measured: float

    @property
    def ratio(self) -> float:
        """Estimated by measured."""
        return self.estimated / self.measured


def compare(path: Path, options: Options, extent: int, rates: Rates, seconds: float) -> Compared:
    """Plan a model, estimate its time, and measure it."""
    stages = Stages(options)
    program = plan_model(path, stages, extent)
    name = path.stem if path.stem != "model" else path.parent.name
    return Compared(name, program, estimate_seconds(program, rates), run(stages, program, seconds))


def plan_model(path: Path, stages: Stages, extent: int = 1) -> Program:
    """A model as a planned program; dynamic dimensions without a given shape have an extent."""
    options, source = stages.options, open_source(str(path))
    shapes = {
        info.name: _shape(info, options.shapes, extent) for info in source.signature(options).inputs
    }
    bound = replace(options, shapes=shapes)
    program, _ = stages.plan(stages.lower(stages.optimise(source.load(bound)[0])))
    return program


def run(stages: Stages, program: Program, seconds: float) -> float:
    """The seconds of the fastest run of a planned program."""
    device = find_device(stages.backend.device)
    loading = LoadOptions(stages.options.threads)
    executable = device.load(stages.backend.compile(program), loading)
    inputs, states = sample_inputs(program), full_states(interface_of(program))
    alone = stages.options.threads == 1 and device.name == "cpu"
    best, busy, runs, end = math.inf, math.inf, 0, perf_counter() + seconds
    while runs < LEAST_RUNS or perf_counter() < end:
        started, worked = perf_counter(), thread_time()
        executable.run(inputs, states)
        best = min(best, perf_counter() - started)
        busy = min(busy, thread_time() - worked)
        runs += 1
    return busy if alone and best > LONG else best


def kind(step: Instr) -> str:
    """What the steps of one rate are called."""
    product, _ = product_of(step)
    members = ops_of(step)
    if product is not None:
        return kind_of(product, plan_of(step))
    return members[0].op.mnemonic if members else type(step).__name__.lower()


def kinds(compared: list[Compared], options: Options, rates: Rates, seconds: float) -> str:
    """A table of estimated and measured seconds by kind of kernel."""
    backend = Stages(options).backend
    if not isinstance(backend, Profiling):
        return f"backend {backend.name} cannot time steps"
    sums: dict[str, list[float]] = {}
    for each in compared:
        measured = measure_steps(backend, each.program, LoadOptions(options.threads), seconds)
        estimated = estimate_steps(each.program, rates)
        for step, *both in zip(each.program.body, estimated, measured, strict=True):
            if both[1]:
                sums.setdefault(kind(step), [0.0, 0.0])
                sums[kind(step)] = [*map(sum, zip(sums[kind(step)], both, strict=True))]
    rows = sorted(sums.items(), key=lambda item: -item[1][1])
    return table(("kind", "estimated ms", "measured ms", "ratio"), map(_row, rows))


def _row(item: tuple[str, list[float]]) -> tuple[str, str, str, str]:
    name, (estimated, measured) = item
    return name, milliseconds(estimated), milliseconds(measured), f"{estimated / measured:.2f}"


def _compared(paths: tuple[Path, ...], *arguments: Any) -> Iterator[Compared]:
    """Each model that is one program here; of the others, why they are not."""
    for path in paths:
        try:
            yield compare(path, *arguments)
        except AfterglowError as error:
            click.echo(f"{path.name}: {error.what}", err=True)


def _shape(info: TensorInfo, shapes: Mapping[str, Sequence[int]], extent: int) -> Sequence[int]:
    """The shape of an input: as given, or with the same extent for all dynamic dimensions."""
    declared = [extent if not isinstance(n, int) or is_ranged(n) else n for n in info.shape or ()]
    return shapes.get(info.name, declared)


def parse_shapes(given: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
    """Shapes of inputs, as written for `--shape`."""
    pairs = (text.rpartition("=") for text in given)
    return {name: [*map(int, shape.split(","))] if shape else [] for name, _, shape in pairs}


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--backend", default="cpu")
@click.option("--target", default="host")
@click.option("--threads", type=int)
@click.option("--shape", "shapes", multiple=True, help="INPUT=1,3,32,32")
@click.option("--extent", default=1, help="Of dimensions that are not given.")
@click.option("--seconds", default=2.0, help="How long each model is run.")
@click.option("--measure", is_flag=True, help="Measure the rates anew.")
@click.option("--kinds", "by_kind", is_flag=True, help="Compare kinds of kernels, too.")
def main(paths: tuple[Path, ...], measure: bool, by_kind: bool, **asked: Any) -> None:
    """Print the tables."""
    cache = cache_folder(True)
    device = LogicalDevice(asked["backend"], "", asked["target"], asked["threads"])
    rates = rates_of(device, cache, measure=measure or None)
    shapes = parse_shapes(asked["shapes"])
    where = {"backend": device.backend, "target": device.target, "threads": device.threads}
    options = Options(**where, shapes=shapes, cache=cache)
    found = list(_compared(paths, options, asked["extent"], rates, asked["seconds"]))
    rows = [
        (each.name, milliseconds(each.estimated), milliseconds(each.measured), f"{each.ratio:.2f}")
        for each in found
    ]
    click.echo(table(("model", "estimated ms", "measured ms", "ratio"), rows))
    near = sum(0.75 <= each.ratio <= 1.25 for each in found)
    click.echo(f"\n{near} of {len(found)} within 25 %")
    if by_kind:
        click.echo("\n" + kinds(found, options, rates, asked["seconds"]))


if __name__ == "__main__":
    main()
