"""What `afterglow quantize` says about the quantized model: options, tables, files."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from afterglow.cli.arrays import read_array, read_arrays
from afterglow.cli.destination import PAGE, REPORT, Destination, file_for
from afterglow.cli.parameters import Number
from afterglow.cli.progress import SampleBar
from afterglow.cli.report import duration
from afterglow.cli.request import Request
from afterglow.cli.session import Session
from afterglow.driver.rounding import watching_samples, with_changes
from afterglow.driver.samples import GivenSamples
from afterglow.driver.tolerance import Search
from afterglow.quantization.metrics import METRICS
from afterglow.quantization.profile import Profile
from afterglow.report.quality import SAMPLES, no_tolerance, quality_of
from afterglow.report.quantization import LayerReport, QuantizationReport
from afterglow.report.quantization_html import decibel_text, quantization_html, summary
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.tables import table
from afterglow.types import Array

SHOWN = 20
"""Layers that the table has."""
_LEVELS = "▁▂▃▄▅▆▇█"
_SPARKS = 12
"""Letters of a histogram."""


@dataclass(frozen=True)
class QualityRequest:
    """What is asked about the quantized model."""

    measure: bool = False
    report: str | None = None
    tolerance: float | None = None
    metric: str | None = None
    labels: str | None = None

    @property
    def asked(self) -> bool:
        """Whether the quantized model is measured."""
        return self.measure or self.report is not None or self.tolerance is not None

    def destination(self, model: str, *, force: bool) -> Destination | None:
        """Where the report is written; raises if that, or something else asked, is not right."""
        if self.metric is not None and self.tolerance is None:
            raise UsageError("--metric is for --tolerance", help="write --tolerance 0.01, too")
        if self.labels is not None and not self.asked:
            raise UsageError("--labels are for --measure", help="write --measure, too")
        if self.report is None:
            return None
        return file_for(self.report, (PAGE, REPORT), model, option="--report", force=force)

    def compare(
        self, request: Request, profile: Profile, given: GivenSamples, bar: SampleBar
    ) -> MeasuredQuality | None:
        """Compile the quantized model, keep layers in floats if asked to, and report on it."""
        if not self.asked:
            return None
        labels = None if self.labels is None else _labels(self.labels)
        options = with_changes(request.options, precision="int8", profile=profile)
        options = watching_samples(options, bar.rounding)
        data, images, limit = given
        samples = data, images, SAMPLES if limit is None else limit
        quality = quality_of(request.path, options, request.dim_options, samples, bar.run)
        found = None
        if self.tolerance is not None:
            found = quality.keep_within(self.tolerance, self.metric or "cosine")
        return MeasuredQuality(quality.profile, quality.report(labels), found, self.metric)

    def compare_weights(
        self, request: Request, given: GivenSamples, bar: SampleBar
    ) -> QuantizationReport:
        """Compare a model in a precision that needs no profile with that in floats."""
        if self.tolerance is not None:
            raise no_tolerance(request.options.precision)
        labels = None if self.labels is None else _labels(self.labels)
        options = watching_samples(request.options, bar.rounding)
        samples = given[0], given[1], SAMPLES if given[2] is None else given[2]
        return quality_of(request.path, options, request.dim_options, samples, bar.run).report(
            labels
        )


def write_report(report: QuantizationReport, page: Destination | None) -> None:
    """Write a report, if asked to."""
    if page is not None:
        page.write_text(quantization_html(report) if page.kind is PAGE else _json(report))


def show_summary(session: Session, report: QuantizationReport) -> None:
    """Print what there is to say about a model as a whole."""
    for name, text in summary(report):
        session.say(f"{name}: {text}")


def _json(report: QuantizationReport) -> str:
    return json.dumps(report.data(), indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class MeasuredQuality:
    """What was found about the quantized model."""

    profile: Profile
    report: QuantizationReport
    found: Search | None
    metric: str | None

    def data(self) -> dict[str, Any]:
        """The same as JSON."""
        search = {} if self.found is None else {"search": vars(self.found)}
        return {"report": self.report.data(), **search}

    def show(self, session: Session) -> None:
        """Print the layers, and what there is to say about all of them."""
        session.show(_table(self.report.layers[:SHOWN]))
        hidden = len(self.report.layers) - SHOWN
        if hidden > 0:
            session.say(f"{hidden} layers that cost less are not shown")
        show_summary(session, self.report)
        if self.found is not None:
            session.say(_searched(self.found, self.metric or "cosine"))


def _searched(found: Search, metric: str) -> str:
    loss = f"loss by {metric}: {found.loss_before:.3g}"
    if not found.keep and not found.int16:
        return f"{loss}, within the tolerance with all {found.layers} layers in integers"
    kept = [
        f"{len(names)} of {found.layers} layers {place}"
        for names, place in ((found.keep, "in floats"), (found.int16, "with 16 bits"))
        if names
    ]
    return f"{loss}, and {found.loss:.3g} with {' and '.join(kept)}"


def _table(layers: tuple[LayerReport, ...]) -> Table:
    """Layers with their ranges, ratios of signal to noise, bytes and times."""
    ratios = ("storing", "own", "outputs", "accumulated")
    numbers = ("low", "high", "scale", "zero", "saturates", *ratios, "weights", "time", "integers")
    columns = "layer", "low", "high", "histogram", *numbers[2:]
    rows = table(*columns, right=numbers)
    for layer in layers:
        signal = layer.storing_snr, layer.own_snr, layer.output_snr, layer.accumulated_snr
        rows.add_row(
            layer.node or layer.name,
            f"{layer.low:.4g}",
            f"{layer.high:.4g}",
            sparkline(layer),
            f"{layer.scale:.3g}",
            str(layer.zero_point),
            f"{layer.saturated:.2%}",
            *map(decibel_text, signal),
            f"{layer.stored_bytes / max(1, layer.weight_bytes):.0%}",
            *("" if s is None else duration(s) for s in (layer.seconds, layer.stored_seconds)),
        )
    return rows


def sparkline(layer: LayerReport) -> str:
    """A histogram as a few letters, whose heights are logarithmic."""
    by = len(layer.histogram) // _SPARKS
    sums = [sum(layer.histogram[place * by : (place + 1) * by]) for place in range(_SPARKS)]
    most = max(count.bit_length() for count in sums)
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[-(-count.bit_length() * top // most)] if most else " " for count in sums)


def _labels(text: str) -> Array:
    """The classes of samples: the array of a .npy file, or `labels` of a .npz file."""
    path = Path(text)
    if path.suffix.lower() != ".npz":
        return read_array(path)
    arrays = read_arrays(path)
    if "labels" not in arrays:
        raise UsageError(f"{path} has no array labels", help="give a .npy file")
    return arrays["labels"]


def takes_quality(command: Callable[..., int]) -> Callable[..., int]:
    """Decorator that adds the options about the quantized model, and collects them."""

    @wraps(command)
    def collected(
        *args: Any,
        measure: bool,
        report: str | None,
        tolerance: float | None,
        metric: str | None,
        labels: str | None,
        **others: Any,
    ) -> int:
        quality = QualityRequest(measure, report, tolerance, metric, labels)
        return command(*args, quality=quality, **others)

    decorated: Callable[..., int] = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--measure", is_flag=True, help="Compare the model in integers with that in floats."
    ),
    click.option(
        "--report", metavar="FILE", help="Write what was compared: FILE.html, or FILE.json."
    ),
    click.option(
        "--tolerance",
        type=Number("LOSS", zero=True),
        help="Keep layers in floats, or with 16 bits, until the loss of the outputs is at most "
        "this.",
    ),
    click.option(
        "--metric",
        type=click.Choice(tuple(METRICS)),
        help="The loss: 1 - cosine similarity, 1 - agreement of top-1, the largest error, or the "
        "divergence of distributions.  [default: cosine]",
    ),
    click.option(
        "--labels", metavar="FILE", help="The class of each sample, to compare accuracies."
    ),
)
