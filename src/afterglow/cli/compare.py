"""`afterglow compare`: find the first layer that differs from a reference, and why."""

from __future__ import annotations

from pathlib import Path

import click

from afterglow.cli.destination import ARCHIVE, ONNX, check_replaceable, file_for, takes_force
from afterglow.cli.each import for_each_extent
from afterglow.cli.feed import build_feed, takes_inputs
from afterglow.cli.parameters import Number
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model
from afterglow.cli.saved import load_saved, saved_feed
from afterglow.cli.session import Session
from afterglow.report.compare.api import (
    Asked,
    compare_with,
    judge_of,
    known_inputs,
    side_of,
)
from afterglow.report.compare.result import CompareReport
from afterglow.report.compare.sides import CompiledSide, LoadedSide
from afterglow.types import Array

_OWN = ("reference", "rtol", "atol", "l2", "check", "show_all", "worst", "force")
"""Options of this command that also apply to compiled models."""


@click.command()
@takes_model
@takes_inputs
@click.option(
    "--ref",
    "reference",
    default="onnxruntime",
    show_default=True,
    metavar="onnxruntime|reference|interpreter|float32|FILE.npz|MODEL",
    help="What to compare with.",
)
@click.option(
    "--rtol",
    type=Number("ERROR", zero=True),
    help="Largest error that agrees, by the largest magnitude of the tensor.  [default: 0.0001]",
)
@click.option(
    "--atol",
    type=Number("ERROR", zero=True),
    help="Largest error that agrees in any case.  [default: 1e-06]",
)
@click.option(
    "--l2",
    type=Number("ERROR", zero=True),
    help="Judge by the relative L2 error.  [default: with --precision int8, 0.1]",
)
@click.option(
    "--check",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A Python file whose function check(actual, expected) decides instead.",
)
@click.option("--bisect-passes", is_flag=True, help="Find the pass that introduced it.")
@click.option("--reduce", metavar="FILE.onnx", help="Write a small model that still differs.")
@click.option("--all", "show_all", is_flag=True, help="Show every tensor.")
@click.option("--worst", is_flag=True, help="Show those with the largest L2 error first.")
@takes_force
@for_each_extent("--reduce")
def compare(
    session: Session,
    request: Request,
    inputs: tuple[str, ...],
    seed: int,
    reference: str,
    rtol: float | None,
    atol: float | None,
    l2: float | None,
    check: Path | None,
    bisect_passes: bool,
    reduce: str | None,
    show_all: bool,
    worst: bool,
    force: bool,
) -> int:
    """Compare MODEL with a reference, tensor by tensor, and find the first that differs.

    The reference is ONNX Runtime; the reference implementation of ONNX; MODEL by the definitions
    of its ops, not optimised (interpreter); MODEL compiled in float32, for one in fewer bits;
    tensors by name, such as a dump from PyTorch, whose inputs are used, too (FILE.npz); or another
    model, or a compiled one. The outputs are those of MODEL exactly as it is compiled. The exit
    status is 1 unless all tensors agree.

    With --bisect-passes, the compiler's pass that introduced the difference is named; with
    --reduce, a few nodes that still differ are written as a model, with their inputs beside it.

    \b
    Examples:
      afterglow compare model.onnx --ref onnxruntime
      afterglow compare model.onnx --ref interpreter --bisect-passes
      afterglow compare model.onnx --ref torch.npz --rtol 1e-3
      afterglow compare model.onnx --precision bfloat16 --ref float32 --worst
      afterglow compare model.onnx --precision int8 --profile p.json --ref interpreter
      afterglow compare model.onnx --ref old.onnx --reduce small.onnx
    """  # noqa: D301  click keeps lines after its mark as they are
    place = _place(request, reduce, force=force)
    with StageClock(session.err) as clock:
        clock("read")
        side, feed = _opened(request, reference, inputs, seed)
        asked = Asked(reference, judge_of(side, rtol, atol, l2, check), bisect_passes, place)
        report = compare_with(request.path, side, feed, asked, clock)
    data = {"model": request.path, "backend": request.options.where, **report.data()}
    session.answer(
        {**data, "seconds": clock.total},
        lambda: _show(session, report, clock.total, show_all, worst),
    )
    return 0 if report.agrees else 1


def _place(request: Request, reduce: str | None, *, force: bool) -> Path | None:
    """Where the small model is written, with archives of arrays beside it."""
    if reduce is None:
        return None
    path = file_for(reduce, (ONNX,), request.path, option="--reduce", force=force).path
    assert path is not None
    for suffix in (".npz", ".expected.npz"):
        check_replaceable(path.with_suffix(suffix), ARCHIVE, request.path, force=force)
    return path


def _opened(
    request: Request, reference: str, inputs: tuple[str, ...], seed: int
) -> tuple[CompiledSide | LoadedSide, dict[str, Array]]:
    """The model, and arrays for its inputs; those that come with the reference, too."""
    known = known_inputs(reference)
    if request.is_saved:
        model = load_saved(request, *_OWN)
        return LoadedSide(Path(request.path).name, model), saved_feed(
            model, request, inputs, seed, known
        )
    side = side_of(request.path, request.options, request.dim_options)
    assert isinstance(side, CompiledSide)
    return side, build_feed(request.inputs(side.source), request, inputs, seed, known)


def _show(
    session: Session, report: CompareReport, seconds: float, show_all: bool, worst: bool
) -> None:
    session.show(report.table(all=show_all, worst=worst))
    hidden = 0 if show_all else report.hidden(worst=worst)
    if hidden:
        session.say(f"{hidden} more tensors: --all shows them")
    for line in report.lines()[:-1]:
        session.say(line)
    style = "bold green" if report.agrees else "bold red"
    session.say(f"{report.verdict}, in {duration(seconds)}", style)
