"""`afterglow report`: write a page that shows what the compiler made of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from afterglow.cli.destination import FACTS, PAGE, Destination, file_for, takes_force
from afterglow.cli.each import refuse_lists
from afterglow.cli.feed import build_feed, compiled_for, takes_inputs
from afterglow.cli.progress import StageClock
from afterglow.cli.request import Request, command_line_help, takes_model, takes_state
from afterglow.cli.saved import load_saved, saved_feed
from afterglow.cli.session import Session
from afterglow.report.page.collect import ModelReport, collect_report
from afterglow.report.page.render import report_page
from afterglow.report.page.saved import collect_saved
from afterglow.support.errors import UsageError


@click.command("report")
@takes_model
@click.option("-o", "--output", metavar="FILE", help="The page, FILE.html; or FILE.json.")
@click.option("--no-time", is_flag=True, help="Run nothing: all but times and the roofline.")
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Runs in which instructions are timed; the fastest counts.",
)
@takes_inputs
@takes_state
@takes_force
def report(
    session: Session,
    request: Request,
    output: str | None,
    no_time: bool,
    force: bool,
    **asked: Any,
) -> int:
    """Write a page about MODEL that a browser opens, without a network.

    It shows the graph at every stage of the compiler, from the model to the instructions, with the
    kernel plan, the time and the memory of each instruction; the memory map; the roofline; times by
    kernel and by node of the model; and the text of each stage. FILE.json has the same as data.

    Runs on one thread unless --threads says otherwise. Of a compiled model (FILE.agc) there are
    times and sizes only. The roofline needs the speed of the device, which is measured once, in a
    few seconds, and then cached.

    \b
    Examples:
      afterglow report model.onnx --no-time -o report.html
      afterglow report model.onnx --threads 2 -o report.html
    """  # noqa: D301  click keeps lines after its mark as they are
    place = _place(session, request, output, force)
    refuse_lists(request, "a report")
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        collect = _collect_saved if request.is_saved else _collect
        facts = collect(request, asked, no_time).data()
        clock("write")
        _write(place, facts)
    about = {"output": None if place is None else str(place.path)}
    session.answer({**facts, **about}, lambda: _show(session, facts, place))
    return 0


def _place(
    session: Session, request: Request, output: str | None, force: bool
) -> Destination | None:
    """Where the report is written; None if it is only printed as JSON."""
    if output is not None:
        return file_for(output, (PAGE, FACTS), request.path, option="-o", force=force)
    if session.json:
        return None
    name = f"{Path(request.path).stem or 'report'}.html"
    raise UsageError("a report is written to a file", help=f"add -o {name}")


def _write(place: Destination | None, facts: Mapping[str, Any]) -> None:
    if place is not None:
        page = place.kind is PAGE
        place.write_text(report_page(facts) if page else json.dumps(facts, ensure_ascii=False))


def _collect(request: Request, asked: dict[str, Any], no_time: bool) -> ModelReport:
    source, options, feed = request.source(), request.options, None
    if not no_time and not options.devices:
        inputs = request.inputs(source)
        feed = build_feed(inputs, request, asked["inputs"], asked["seed"])
        options = compiled_for(inputs, request, feed)
    with command_line_help(source, options):
        title = Path(request.path).name
        return collect_report(title, source, options, feed, asked["repeat"])


def _collect_saved(request: Request, asked: dict[str, Any], no_time: bool) -> ModelReport:
    one = request.options.threads or 1
    request = replace(request, options=replace(request.options, threads=one))
    model = load_saved(request, "output", "no_time", "repeat", "force")
    feed = None if no_time else saved_feed(model, request, asked["inputs"], asked["seed"])
    return collect_saved(Path(request.path).name, model, feed, asked["repeat"], one)


def _show(session: Session, facts: Mapping[str, Any], place: Destination | None) -> None:
    for sentence in facts["missing"]:
        session.say(sentence)
    path = None if place is None else place.path
    session.say(f"report written to {path}", "bold")
