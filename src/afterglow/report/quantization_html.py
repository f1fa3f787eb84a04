"""The report on a quantized model as a page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Protocol

from afterglow.memory.picture import bytes_text
from afterglow.report.quantization import LayerReport, QuantizationReport

_WIDTH, _HEIGHT = 192, 34
_NOISY, _GOOD = 20.0, 40.0
"""Signal to noise, in dB, that is drawn as an empty bar and as half a bar."""

_STYLE = """
body { font: 14px/1.4 "DejaVu Sans", Verdana, sans-serif; color: #333; margin: 2em; }
h1 { font-size: 20px; }
table { border-collapse: collapse; }
th, td { padding: 3px 9px; text-align: right; border-bottom: 1px solid #e4e4e4; }
th { position: sticky; top: 0; background: #fff; vertical-align: bottom; }
td.name, th.name { text-align: left; }
td.name small { color: #888; }
tr:hover { background: #f6f6f6; }
.bar { fill: #4e79a7; }
.clipped { fill: #c8505f; }
.zero { stroke: #999; }
.level { fill: #dfe8f1; }
.low { fill: #f3d3d6; }
dl { display: grid; grid-template-columns: max-content max-content; gap: 2px 16px; }
dd { margin: 0; font-weight: bold; }
p { max-width: 60em; }
""".strip()

_EXPLANATION = """
Layers that compute in integers, the most costly first. The histogram is of the value that a layer
reads (heights are logarithmic); what is clipped is red. Signal to noise is in dB: 20 more are a
tenth of the error. <b>Storing</b> is what rounding this value to integers leaves; <b>own</b> is
that of the layer's result if only this layer computes in integers, <b>outputs</b> that of the
model's outputs then, and <b>accumulated</b> that of the value that it reads if all layers do.
A layer with a low number under outputs is the one to keep in floats.
"""


def quantization_html(report: QuantizationReport) -> str:
    """The report as HTML, with a picture for each layer."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>Quantization of {escape(report.title)}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Quantization of {escape(report.title)}</h1>",
        "<dl>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in summary(report)),
        "</dl>",
        *(_layers(report) if report.layers else ()),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _layers(report: QuantizationReport) -> Iterator[str]:
    """What the columns say, and the table."""
    yield f"<p>{_EXPLANATION.strip()}</p>"
    yield "<table><thead><tr>"
    yield from (_cell("th", name, escape(name)) for name, _ in _COLUMNS)
    yield "</tr></thead><tbody>"
    yield from (_row(layer) for layer in report.layers)
    yield "</tbody></table>"


def summary(report: QuantizationReport) -> Iterator[tuple[str, str]]:
    """What is said about a model as a whole: names and texts."""
    metrics = report.metrics
    yield "samples", str(report.samples)
    yield "cosine similarity of the outputs", f"{metrics['cosine']:.6f}"
    yield "largest error", f"{metrics['max_error']:.2%} of the largest number"
    yield "same top-1", f"{metrics['top1']:.2%}"
    if "accuracy_int8" in metrics:
        both = metrics["accuracy_float"], metrics["accuracy_int8"]
        yield "accuracy, in floats and in integers", f"{both[0]:.2%}, {both[1]:.2%}"
    if "divergence" in metrics:
        yield "divergence of the distributions", f"{metrics['divergence']:.4g} nats"
    if "perplexity_int" in metrics:
        both = metrics["perplexity_float"], metrics["perplexity_int"]
        yield "perplexity, in floats and in integers", f"{both[0]:.4g}, {both[1]:.4g}"
    weights = f"{bytes_text(report.weight_bytes)}, {bytes_text(report.stored_bytes)}"
    kind = "weights of the layers" if report.program_bytes is None else "weights"
    yield f"{kind}, in floats and in integers", weights
    if report.seconds is not None and report.stored_seconds is not None:
        both = report.seconds, report.stored_seconds
        yield "time of a run, in floats and in integers", ", ".join(map(time_text, both))
    if report.kept:
        yield "kept in floats", ", ".join(report.kept)
    if report.int16:
        yield "with 16 bits", ", ".join(report.int16)


def time_text(seconds: float | None) -> str:
    """A time in the unit that suits it; nothing if it is not known."""
    if seconds is None:
        return ""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.{1 if seconds < 1e-5 else 0}f} µs"
    return f"{seconds * 1e3:.2f} ms"


def decibel_text(ratio: float | None) -> str:
    """A ratio in dB; nothing if it is not known."""
    if ratio is None:
        return ""
    return f"{ratio:.1f}" if math.isfinite(ratio) else "exact"


def _cell(tag: str, column: str, content: str) -> str:
    style = ' class="name"' if column == "layer" else ""
    return f"<{tag}{style}>{content}</{tag}>"


def _row(layer: LayerReport) -> str:
    cells = (_cell("td", name, content(layer)) for name, content in _COLUMNS)
    return f"<tr>{''.join(cells)}</tr>"


def _name(layer: LayerReport) -> str:
    shown = escape(layer.node or layer.name)
    return f"{shown}<br><small>{escape(layer.op)} of {escape(layer.value)}</small>"


def _range(layer: Clipped) -> str:
    return f"{layer.low:.4g} to {layer.high:.4g}"


def _ratio(ratio: float | None) -> str:
    """A ratio in dB, on a bar that is shorter the more noise there is."""
    if ratio is None:
        return ""
    share = (min(ratio, 2 * _GOOD - _NOISY) - _NOISY) / (2 * (_GOOD - _NOISY))
    kind = "low" if ratio < _NOISY else "level"
    width = 60 if ratio < _NOISY else round(60 * share)
    return (
        '<svg width="60" height="18">'
        f'<rect class="{kind}" width="{width}" height="18"/>'
        f'<text x="56" y="13" font-size="12" text-anchor="end">{decibel_text(ratio)}</text></svg>'
    )


class Clipped(Protocol):
    """A value with its histogram, and the range that its integers stand for."""

    @property
    def low(self) -> float:
        """The least number."""

    @property
    def high(self) -> float:
        """The greatest number."""

    @property
    def histogram(self) -> Sequence[int]:
        """Counts of equal bins from `low` to `high`."""

    @property
    def clipped_low(self) -> float:
        """The least number that the integers stand for."""

    @property
    def clipped_high(self) -> float:
        """The greatest number that they stand for."""


def histogram_svg(layer: Clipped) -> str:
    """The histogram of what a layer reads: bars of logarithmic height, red where it is clipped."""
    width, most = _WIDTH / len(layer.histogram), math.log1p(max(layer.histogram))
    span = layer.high - layer.low
    bars = []
    for place, count in enumerate(layer.histogram):
        height = _HEIGHT * math.log1p(count) / most if most else 0.0
        middle = layer.low + (place + 0.5) / len(layer.histogram) * span
        inside = layer.clipped_low <= middle <= layer.clipped_high
        bars.append(
            f'<rect class="{"bar" if inside else "clipped"}" x="{place * width:.1f}" '
            f'y="{_HEIGHT - height:.1f}" width="{width - 0.5:.1f}" height="{height:.1f}"/>'
        )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}"><title>{_range(layer)}, kept from '
        f"{layer.clipped_low:.4g} to {layer.clipped_high:.4g}</title>"
        f"{''.join(bars)}{_zero(layer, span)}</svg>"
    )


def _zero(layer: Clipped, span: float) -> str:
    if not layer.low < 0 < layer.high:
        return ""
    x = -layer.low / span * _WIDTH
    return f'<line class="zero" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT}"/>'


_COLUMNS: tuple[tuple[str, Callable[[LayerReport], str]], ...] = (
    ("layer", _name),
    ("range", _range),
    ("histogram", histogram_svg),
    ("scale", lambda layer: f"{layer.scale:.4g}"),
    ("zero point", lambda layer: str(layer.zero_point)),
    ("saturates", lambda layer: f"{layer.saturated:.3%}"),
    ("storing", lambda layer: _ratio(layer.storing_snr)),
    ("own", lambda layer: _ratio(layer.own_snr)),
    ("outputs", lambda layer: _ratio(layer.output_snr)),
    ("accumulated", lambda layer: _ratio(layer.accumulated_snr)),
    ("weights", lambda layer: bytes_text(layer.weight_bytes)),
    ("as integers", lambda layer: bytes_text(layer.stored_bytes)),
    ("time", lambda layer: time_text(layer.seconds)),
    ("in integers", lambda layer: time_text(layer.stored_seconds)),
)
"""The columns of the table: names, and what a row has there."""
