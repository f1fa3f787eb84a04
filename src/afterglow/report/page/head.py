"""The head of a report: how a model was compiled, what it needs, and how long a run takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeAlias

from afterglow.driver.options import Options
from afterglow.instr import Program
from afterglow.memory.picture import bytes_text
from afterglow.memory.timeline import Timeline
from afterglow.quantization.profile import Profile
from afterglow.report.page.times import MeasuredRun
from afterglow.runtime.model import CompiledModel
from afterglow.support.durations import duration
from afterglow.types import MemoryPlan

Fact: TypeAlias = tuple[str, str]
"""A name, and what there is to say."""

_SHOWN_APART = {"backend", "target", "threads", "devices", "shapes", "dims"}
_OF_A_PROCESS = {"cache", "progress", "instruments", "perf_map", "partition", "max_memory"}


def option_facts(options: Options) -> list[Fact]:
    """Where a model runs, and the options that are not the default ones."""
    threads = options.threads or 1
    changed = ", ".join(f"{name} = {text}" for name, text in _changed(options))
    return [
        ("backend", options.where),
        ("target", options.target),
        ("threads", str(threads)),
        ("options", changed or "defaults"),
    ]


def _changed(options: Options) -> Iterator[tuple[str, str]]:
    for each in fields(options):
        value = getattr(options, each.name)
        if each.name in _SHOWN_APART | _OF_A_PROCESS or value == _default(each):
            continue
        yield each.name, _option_text(value)


def _default(option: Field[Any]) -> Any:
    return option.default_factory() if option.default_factory is not MISSING else option.default


def _option_text(value: Any) -> str:
    if isinstance(value, Profile):
        return f"{len(value.observations)} values on {value.samples} samples"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_brief(each)}" for name, each in value.items())
    return _brief(value)


def _brief(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return str(value) if shape is None else f"an array of shape {shape}"


def memory_facts(program: Program, plan: MemoryPlan) -> list[Fact]:
    """What a planned program needs, and how many instructions it has."""
    weights = sum(buffer.type.nbytes for buffer in program.constants)
    bound = plan.lower_bound_bytes
    over = f", {plan.arena_bytes / bound:.3f} times the lower bound" if bound else ""
    return [
        ("arena", f"{bytes_text(plan.arena_bytes)}{over}"),
        ("weights", bytes_text(weights)),
        ("instructions", str(len(Timeline(program).steps))),
    ]


def saved_facts(model: CompiledModel) -> list[Fact]:
    """What a compiled model needs."""
    memory = model.memory
    return [
        ("arena", bytes_text(memory.arena_bytes)),
        ("weights", bytes_text(memory.weight_bytes)),
        ("code", bytes_text(memory.code_bytes)),
        ("inputs and outputs", bytes_text(memory.io_bytes)),
    ]


def time_facts(run: MeasuredRun | None, expected: float | None) -> list[Fact]:
    """The measured time of a run, and the one that the rates of the device suggest."""
    found = []
    if run is not None:
        spread = f"{duration(run.best)} (median {duration(run.median)} of {run.runs} runs)"
        found.append(("measured time", spread))
    if expected is not None:
        found.append(("expected time", duration(expected)))
    return found
