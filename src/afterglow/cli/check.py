"""`afterglow check`: describe a model and report whether it can be compiled."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

import click
from rich.text import Text

from afterglow.backends.capabilities import HostFallback
from afterglow.cli.each import for_each_extent
from afterglow.cli.progress import StageClock
from afterglow.cli.refused_ranges import refused_ranges
from afterglow.cli.request import Request, is_free, takes_model
from afterglow.cli.session import Session, error_data
from afterglow.cli.survey import Survey, survey
from afterglow.cli.verb_command import VerbCommand
from afterglow.driver.sources import Source
from afterglow.driver.stages import Stages
from afterglow.frontends.base import (
    MOST_DECIDING,
    Boundary,
    HostNode,
    NeedsValuesError,
    UnboundDimensionsError,
)
from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.definition.model import ModelDef
from afterglow.frontends.definition.signature import Parameter, Signature
from afterglow.graph import Module, verify_module
from afterglow.memory.timeline import origin_of, work_of
from afterglow.ops.flops import program_flops
from afterglow.report.fates import Fate, Fates, find_fates, origins
from afterglow.support.errors import AfterglowError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.tables import table
from afterglow.types.extent import is_ranged, largest

MOST_SHOWN = 8
"""At most this many inputs, outputs and host nodes are listed; JSON has all of them."""

_VERDICTS = {
    0: "supported",
    AfterglowError.exit_status: "malformed",
    UnsupportedError.exit_status: "unsupported",
}


@click.command(cls=VerbCommand)
@takes_model
@for_each_extent()
def check(session: Session, request: Request) -> int:
    """Describe MODEL and list everything in it that is not supported.

    Nodes that have no native kernel are listed: they run on the host, which is slower. A model
    with dynamic dimensions is checked op by op; give the dimensions extents or bounds to check it
    as a whole. Dimensions that no program can be ranged over are listed with the reason.

    \b
    Examples:
      afterglow check model.onnx
      afterglow check model.onnx --dim batch=1..8 --json
    """  # noqa: D301  click keeps lines after its mark as they are
    with StageClock(session.err) as clock:
        clock("read")
        source = request.source()
        facts = survey(_definition(source, request.path))
        found = _try(request.watched(clock), source, facts)
    status = 0 if found.problem is None else found.problem.exit_status
    verdict = _VERDICTS.get(status, "wrong use")
    data = {"model": request.path, **facts.data(), **found.data(verdict)}
    session.answer(data, lambda: _show(session, facts, found))
    if session.json:
        return status
    if found.problem is not None:
        session.fail(found.problem)
    elif found.open_question:
        session.say(found.open_question, "yellow")
    session.say(f"verdict: {verdict}", "bold red" if status else "bold green")
    return status


@dataclass(frozen=True)
class HostStep:
    """A step that runs on the host: its op, its node in the model, and the reason."""

    work: str
    origin: str
    reason: str

    def __str__(self) -> str:
        origin = f" ({self.origin})" if self.origin else ""
        return f"{self.work}{origin}: {self.reason}"


@dataclass(frozen=True)
class Costs:
    """The cost of a run, and how each node of the model is executed."""

    flops: float
    activation_bytes: int
    fates: Fates

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        counts = {fate.name.lower(): dict(nodes) for fate, nodes in self.fates.counts.items()}
        lowered_to = {op: sorted(names) for op, names in self.fates.lowered_to.items()}
        return {
            "flops": self.flops,
            "activation_bytes": self.activation_bytes,
            "fates": {**counts, "lowered_to": lowered_to},
        }


@dataclass(frozen=True)
class Findings:
    """The result of a check: a problem or open question, host steps, costs and warnings."""

    problem: AfterglowError | None = None
    open_question: str = ""
    on_host: tuple[HostStep, ...] = ()
    costs: Costs | None = None
    warnings: tuple[str, ...] = ()
    refused_ranges: Mapping[str, str] = field(default_factory=dict)
    """The dimensions that no program can be ranged over, each with the reason."""

    def data(self, verdict: str) -> dict[str, Any]:
        """The JSON representation."""
        unknown = {"flops": None, "activation_bytes": None, "fates": None}
        return {
            **(unknown if self.costs is None else self.costs.data()),
            "on_host": [asdict(step) for step in self.on_host],
            "refused_ranges": dict(self.refused_ranges),
            "warnings": list(self.warnings),
            "verdict": verdict,
            "open_question": self.open_question,
            "problem": None if self.problem is None else error_data(self.problem),
        }


def _definition(source: Source, path: str) -> ModelDef:
    if not isinstance(source, DefinedSource):
        raise UnsupportedError(
            "the front end that opens the model tells nothing about it", where=f"in {path}"
        )
    return source.model


def _try(request: Request, source: Source, facts: Survey) -> Findings:
    """Compile the model up to code generation, and collect the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _compiled(request, source, facts)
    texts = dict.fromkeys(str(warning.message) for warning in caught)
    return replace(found, warnings=tuple(texts))


def _compiled(request: Request, source: Source, facts: Survey) -> Findings:
    try:
        module = request.load(source)
        verify_module(module)
        return _planned(Stages(request.options), module, facts)
    except NeedsValuesError as error:
        question = "\n  ".join((error.what, error.help, *_refused_loops(error.boundary)))
        return Findings(
            _missing_ops(facts), question, tuple(_at_boundary(error.boundary, facts.signature))
        )
    except UnboundDimensionsError as error:
        question, refused = f"{error.what}\n  {error.help}", refused_ranges(request, source)
        return Findings(_missing_ops(facts), question, refused_ranges=refused)
    except AfterglowError as error:
        return _without_ranges(request, source, facts) if _has_ranges(request) else Findings(error)


def _has_ranges(request: Request) -> bool:
    return any(map(is_ranged, request.options.dims.values()))


def _without_ranges(request: Request, source: Source, facts: Survey) -> Findings:
    """The findings for the largest extents, and what the ranges are refused for."""
    options = request.options
    dims = {name: largest(extent) for name, extent in options.dims.items()}
    found = _compiled(replace(request, options=replace(options, dims=dims)), source, facts)
    return replace(found, refused_ranges=refused_ranges(request, source))


def _planned(stages: Stages, module: Module, facts: Survey) -> Findings:
    """The findings for a model whose memory is planned."""
    wanted = origins(stages.optimise(module))
    program, plan = stages.plan(stages.lower(module))
    backend = stages.backend
    steps = backend.host_steps(program) if isinstance(backend, HostFallback) else ()
    fates = find_fates(facts.nodes, wanted, program, [step for step, _ in steps])
    on_host = (HostStep(work_of(step), origin_of(step), reason) for step, reason in steps)
    costs = Costs(program_flops(program), plan.arena_bytes, fates)
    return Findings(on_host=tuple(on_host), costs=costs)


def _at_boundary(boundary: Boundary | None, signature: Signature) -> Iterator[HostStep]:
    """The nodes that run on the host because their result shapes depend on data.

    Nodes that depend on a few integers are not included: the model is compiled for each of their
    values.
    """
    if boundary is None:
        return
    few = {parameter.name for parameter in signature.inputs if _is_few(parameter)}
    for node in boundary.nodes:
        is_bound = node.inputs and few.issuperset(node.inputs)
        if not is_bound and not set(boundary.host).isdisjoint(node.results):
            yield HostStep(node.op, node.name, node.reason)


def _refused_loops(boundary: Boundary | None) -> Iterator[str]:
    """The nodes that are compiled for values because something is in the way of one program."""
    if boundary is None:
        return
    for node in boundary.nodes:
        if node.reason != HostNode.reason and set(boundary.host).isdisjoint(node.results):
            yield f"{node}: {node.reason}"


def _is_few(parameter: Parameter) -> bool:
    if parameter.dtype is None or is_free(parameter) or not parameter.dtype.is_integer:
        return False
    return (
        math.prod(extent for extent in parameter.shape or () if isinstance(extent, int))
        <= MOST_DECIDING
    )


def _missing_ops(facts: Survey) -> AfterglowError | None:
    if not facts.unknown_ops:
        return None
    return UnsupportedError(f"ops that are not supported: {', '.join(facts.unknown_ops)}")


def _show(session: Session, facts: Survey, found: Findings) -> None:
    rows = table("", "")
    rows.show_header = False
    for role, text in _lines(facts, found):
        rows.add_row(role, Text(text))
    session.show(rows)


def _lines(facts: Survey, found: Findings) -> Iterator[tuple[str, str]]:
    yield "format", facts.format
    yield "producer", facts.producer or "unknown"
    if facts.opsets:
        yield "opsets", ", ".join(f"{name} {version}" for name, version in facts.opsets.items())
    yield from _some("input", facts.signature.inputs)
    yield from _some("output", facts.signature.outputs)
    if any(is_free(parameter) for parameter in facts.signature.inputs):
        yield "dynamic dimensions", ", ".join(facts.free_dimensions)
    yield "element types", ", ".join(facts.element_types)
    yield "weights", f"{facts.weight_bytes:,} bytes"
    if found.costs is not None:
        yield "activations", f"{found.costs.activation_bytes:,} bytes besides inputs and outputs"
        yield "FLOPs", f"{found.costs.flops:,.0f}"
    yield "nodes", f"{sum(facts.ops.values())}: {_counted(facts.ops)}"
    if facts.unknown_ops:
        yield "not supported", ", ".join(facts.unknown_ops)
    if found.costs is not None:
        yield from _fate_lines(found.costs.fates)
    yield from _some("on the host", found.on_host)
    for name, reason in found.refused_ranges.items():
        yield "not ranged", f"{name}: {reason}"
    yield from _some("warning", found.warnings)


def _fate_lines(fates: Fates) -> Iterator[tuple[str, str]]:
    if fates.counts[Fate.COMPILED]:
        yield "compiled", _counted(fates.counts[Fate.COMPILED])
    for op, count in fates.counts[Fate.LOWERED].most_common():
        yield "lowered", f"{count} {op} to {', '.join(sorted(fates.lowered_to[op]))}"
    if fates.counts[Fate.NO_CODE]:
        yield "merged or folded", _counted(fates.counts[Fate.NO_CODE])


def _counted(ops: Mapping[str, int]) -> str:
    ordered = sorted(ops.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{count} {op}" for op, count in ordered)


def _some(role: str, things: Sequence[object]) -> Iterator[tuple[str, str]]:
    """A line for each of the first few, and how many more there are."""
    yield from ((role, str(thing)) for thing in things[:MOST_SHOWN])
    if len(things) > MOST_SHOWN:
        yield role, f"and {len(things) - MOST_SHOWN} more"
