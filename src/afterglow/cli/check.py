"""`afterglow check`: what is in a model, and whether it can be compiled."""

from __future__ import annotations

from typing import Any

import click

from afterglow.cli.progress import StageClock
from afterglow.cli.request import Request, is_free, takes_model
from afterglow.cli.session import Session, error_data, table
from afterglow.cli.survey import Survey, survey
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.frontends.onnx import NeedsValuesError, UnboundDimensionsError, read_model
from afterglow.graph import verify_module
from afterglow.support.errors import AfterglowError, UnsupportedError

MOST_SHOWN = 8
"""Inputs, and outputs, of which each has a line; JSON has them all."""

_VERDICTS = {
    0: "supported",
    AfterglowError.exit_status: "malformed",
    UnsupportedError.exit_status: "unsupported",
}


@click.command(short_help="Say what is in a model, and whether it is supported.")
@takes_model
def check(session: Session, request: Request) -> int:
    """Say what is in MODEL, what of it is supported, and every problem at once.

    A model with free dimensions is checked op by op; bind them to have it checked as a whole.
    """
    with StageClock(session.err) as clock:
        clock("read")
        facts = survey(read_model(request.path))
        problem, open_question = _try(request.watched(clock), facts)
    status = 0 if problem is None else problem.exit_status
    verdict = _VERDICTS.get(status, "wrong use")
    data: dict[str, Any] = {
        "model": request.path,
        **facts.data(),
        "verdict": verdict,
        "open_question": open_question,
        "problem": None if problem is None else error_data(problem),
    }
    session.answer(data, lambda: _show(session, facts))
    if session.json:
        return status
    if problem is not None:
        session.fail(problem)
    elif open_question:
        session.say(open_question, "yellow")
    session.say(f"verdict: {verdict}", "bold red" if status else "bold green")
    return status


def _try(request: Request, facts: Survey) -> tuple[AfterglowError | None, str]:
    """What stands in the way of compiling the model, and what could not be found out."""
    source = open_source(request.path)
    try:
        module = request.load(source)
        verify_module(module)
        stages = Stages(request.options)
        stages.lower(stages.optimise(module))
    except (UnboundDimensionsError, NeedsValuesError) as error:
        return _missing_ops(facts), f"{error.what}\n  {error.help}"
    except AfterglowError as error:
        return error, ""
    return None, ""


def _missing_ops(facts: Survey) -> AfterglowError | None:
    if not facts.unknown_ops:
        return None
    return UnsupportedError(f"Afterglow does not have the ops {', '.join(facts.unknown_ops)}")


def _show(session: Session, facts: Survey) -> None:
    rows = table("", "")
    rows.show_header = False
    rows.add_row("producer", facts.producer or "unknown")
    rows.add_row("opsets", ", ".join(f"{name} {version}" for name, version in facts.opsets.items()))
    for role, parameters in (
        ("input", facts.signature.inputs),
        ("output", facts.signature.outputs),
    ):
        for parameter in parameters[:MOST_SHOWN]:
            rows.add_row(role, str(parameter))
        if len(parameters) > MOST_SHOWN:
            rows.add_row(role, f"and {len(parameters) - MOST_SHOWN} more")
    if any(is_free(parameter) for parameter in facts.signature.inputs):
        rows.add_row("free dimensions", ", ".join(facts.free_dimensions))
    rows.add_row("element types", ", ".join(facts.element_types))
    rows.add_row("weights", f"{facts.weight_bytes:,} bytes")
    nodes = ", ".join(f"{count} {op}" for op, count in facts.ops.items())
    rows.add_row("nodes", f"{sum(facts.ops.values())}: {nodes}")
    if facts.unknown_ops:
        rows.add_row("not supported", ", ".join(facts.unknown_ops))
    session.show(rows)
