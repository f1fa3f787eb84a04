"""`afterglow quantize`: observe the values of a model on samples, and write the profile.

If asked to, it also compiles the model into integers, and reports what that costs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from afterglow.cli.destination import PROFILE, file_for, takes_force
from afterglow.cli.each import refuse_lists
from afterglow.cli.progress import SampleBar
from afterglow.cli.quality import QualityRequest, show_summary, takes_quality, write_report
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model
from afterglow.cli.session import Session
from afterglow.cli.verb_command import VerbCommand
from afterglow.driver.options import PRECISIONS
from afterglow.driver.profiled import whole_graph
from afterglow.driver.profiling import profile_with
from afterglow.driver.samples import GivenSamples
from afterglow.quantization.observation import Observation
from afterglow.quantization.profile import Profile
from afterglow.support.errors import UsageError
from afterglow.support.tables import table

SHOWN = 20
"""Values that the table has."""
TYPICAL = 0.999
"""The share of numbers whose magnitudes count as typical."""


@click.command("quantize", cls=VerbCommand)
@takes_model
@click.option(
    "--data",
    metavar="FOLDER|FILE",
    required=True,
    help="The samples: FILE.npz, FILE.npy, an image, or a folder of such files.",
)
@click.option("-o", "--output", metavar="FILE.json", help="Where to write the profile.")
@click.option("--limit", type=click.IntRange(1), help="How many samples to take at most.")
@click.option(
    "--merge", metavar="FILE.json", multiple=True, help="Add what another profile observed."
)
@takes_quality
@takes_force
def quantize(
    session: Session,
    request: Request,
    output: str | None,
    force: bool,
    quality: QualityRequest,
    **asked: Any,
) -> int:
    """Run MODEL on samples, observe the values that it computes, and write a profile of them.

    The profile has the range, a histogram and the ranges of channels of each value that would be
    stored as integers. It is for this model alone: another one, with other weights, is refused.
    Without -o it is written to MODEL.profile.json, in the current folder.

    With --measure or --report, the model is then compiled into integers and compared with the
    model in floats: layer by layer, the most costly first, and as a whole. With --tolerance, the
    few layers whose return to floats helps most are kept in floats until the loss (--metric) is
    within the tolerance: the profile has them, and afterglow compile follows it.

    With --precision weights_int8, weights_int4, weights_f8 or dynamic_int8, which need no profile,
    none is written: the model in that precision is compared with the model in floats.

    \b
    Examples:
      afterglow quantize model.onnx --data samples.npy --measure
      afterglow quantize model.onnx --data photos --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
    """  # noqa: D301  click keeps lines after its mark as they are
    _check(request, quality)
    if PRECISIONS[request.options.precision].has_integers:
        return _compare(session, request, quality, output, force, asked)
    name = output or f"{Path(request.path).stem}.profile.json"
    place = file_for(name, (PROFILE,), request.path, option="-o", force=force)
    page = quality.destination(request.path, force=force)
    assert place.path is not None
    with SampleBar(session.err) as bar:
        found = _profile(request, asked, bar)
        measured = quality.compare(request, found, _samples(request, asked), bar)
        if measured is not None:
            found = measured.profile
            write_report(measured.report, page)  # a failure leaves the old profile, too
        found.save(place.path)
    data = {
        **_data(found),
        **({} if measured is None else measured.data()),
        "model": request.path,
        "output": name,
        "seconds": bar.seconds,
    }

    def show() -> None:
        if measured is None:
            _show_values(session, found)
        else:
            measured.show(session)
        _show_end(session, found, name, bar.seconds)

    session.answer(data, show)
    return 0


def _compare(
    session: Session,
    request: Request,
    quality: QualityRequest,
    output: str | None,
    force: bool,
    asked: dict[str, Any],
) -> int:
    """Compare a model in a precision that needs no profile with the model in floats."""
    precision = request.options.precision
    if not quality.asked or output is not None or asked["merge"]:
        raise UsageError(
            f"precision {precision!r} needs no profile",
            help="write --measure or --report FILE, without -o, to compare it with floats",
        )
    page = quality.destination(request.path, force=force)
    with SampleBar(session.err) as bar:
        report = quality.compare_weights(request, _samples(request, asked), bar)
        write_report(report, page)
    data = {"model": request.path, "precision": precision, "report": report.data()}
    session.answer({**data, "seconds": bar.seconds}, lambda: show_summary(session, report))
    return 0


def _check(request: Request, quality: QualityRequest) -> None:
    """Refuse what no profile can be made of, and options without effect."""
    request.refuse_saved()
    refuse_lists(request, "a profile")
    if PRECISIONS[request.options.precision].by_profile:
        raise UsageError(
            "a profile is made of the model in floats",
            help="leave --precision out, and give the profile to afterglow compile",
        )
    given = (request.options.quantization, request.options.rounding)
    if given != (None, None) and not quality.asked:
        raise UsageError(
            "a profile does not depend on how integers are chosen",
            help="give these options to afterglow compile; or add --measure, to try them",
        )


def _samples(request: Request, asked: dict[str, Any]) -> GivenSamples:
    return asked["data"], request.images, asked["limit"]


def _profile(request: Request, asked: dict[str, Any], bar: SampleBar) -> Profile:
    before = [Profile.load(path) for path in asked["merge"]]
    if before:
        graph = whole_graph(request.source())
        for profile in before:
            profile.check_same(graph, Path(request.path).name)
    if not asked["data"]:
        raise UsageError("the path of the samples is empty", help="write --data FOLDER")
    options = replace(request.options, progress=bar.stage, quantization=None, rounding=None)
    samples = _samples(request, asked)
    found = profile_with(request.path, options, request.dim_options, samples, bar.sample)
    for profile in reversed(before):
        found = profile.merge(found)
    return found


def _data(profile: Profile) -> dict[str, Any]:
    return {
        "samples": profile.samples,
        "left_out": list(profile.left_out),
        "keep": profile.kept,
        "values": [
            {
                "name": name,
                "node": profile.origins.get(name, ""),
                "low": observation.low,
                "high": observation.high,
                "typical": typical_magnitude(observation),
                "runs": observation.runs,
            }
            for name, observation in profile.observations.items()
        ],
    }


def typical_magnitude(observation: Observation) -> float:
    """The magnitude that all but a few numbers have at most, by the histogram."""
    half = len(observation.counts) // 2
    sizes = observation.counts[half:] + observation.counts[:half][::-1]
    within = sizes.cumsum() < TYPICAL * sizes.sum()
    limit = (int(within.sum()) + 1) * observation.bin_width
    return min(limit, max(abs(observation.low), abs(observation.high)))


def _show_values(session: Session, profile: Profile) -> None:
    values = len(profile.observations)
    session.show(_table(profile))
    if values > SHOWN:
        session.say(f"{values - SHOWN} values with fewer outliers are not shown")


def _show_end(session: Session, profile: Profile, output: str, seconds: float) -> None:
    values = len(profile.observations)
    for node in profile.left_out:
        session.warn(f"not observed: {node}")
    session.say(
        f"{values} values, {profile.samples} samples, {duration(seconds)}, written to {output}",
        "bold",
    )


def _table(profile: Profile) -> Table:
    """Ranges of values, those with the largest outliers first."""
    numbers = ("low", "high", "99.9 % within", "outliers")
    rows = table("value", "node", *numbers, right=numbers)
    found = [(name, x, typical_magnitude(x)) for name, x in profile.observations.items()]
    ratios = {name: _ratio(x, typical) for name, x, typical in found}
    for name, x, typical in sorted(found, key=lambda each: -ratios[each[0]])[:SHOWN]:
        ends = (f"{x.low:.4g}", f"{x.high:.4g}", f"± {typical:.4g}", f"{ratios[name]:.1f} x")
        rows.add_row(name, profile.origins.get(name, ""), *ends)
    return rows


def _ratio(observation: Observation, typical: float) -> float:
    """How much larger the largest magnitude is than the typical ones."""
    most = max(abs(observation.low), abs(observation.high))
    return most / typical if typical else 1.0
