"""The report on a quantized model, as data and as a page."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest

from afterglow.report.quantization import QuantizationReport
from afterglow.report.quantization_html import quantization_html
from tests.quantization.broken_layer import SAMPLES, profile, quality


@pytest.fixture(scope="module")
def report() -> QuantizationReport:
    return quality("cpu").report(labels=np.arange(40) % 8)


def test_every_layer_has_its_range_and_ratios(report: QuantizationReport) -> None:
    assert {layer.node for layer in report.layers} == {"first", "second", "third"}
    first = next(layer for layer in report.layers if layer.node == "first")
    observed = profile().observations["x"]
    assert (first.value, first.low, first.high) == ("x", observed.low, observed.high)
    assert sum(first.histogram) == observed.total
    assert first.scale == pytest.approx((first.high - first.low) / 255)
    assert first.clipped_low == -first.zero_point * first.scale
    assert first.saturated < 0.01
    assert 30 < first.own_snr < first.storing_snr + 1 < 70
    assert first.accumulated_snr == pytest.approx(first.storing_snr, abs=1)
    assert (first.weight_bytes, first.stored_bytes) == (4 * 16 * 16, 16 * 16 + 4 * 16)
    assert report.layers[0].output_snr < 30 < report.layers[1].output_snr


def test_the_whole_is_measured(report: QuantizationReport) -> None:
    assert report.samples == len(SAMPLES)
    assert 0.9 < report.metrics["cosine"] < 1
    assert all(0 < report.metrics[f"accuracy_{kind}"] < 1 for kind in ("float", "int8"))
    assert report.stored_bytes < 0.4 * report.weight_bytes
    times = report.seconds, report.stored_seconds
    assert all(time is not None and time > 0 for time in times)
    assert all(layer.seconds and layer.stored_seconds for layer in report.layers)


def test_it_is_json(report: QuantizationReport) -> None:
    data = json.loads(json.dumps(report.data(), allow_nan=False))
    assert data["format"] == "afterglow quantization report"
    assert data["layers"][0]["node"] == "second"
    assert data["weight_bytes"] == report.weight_bytes


class Page(HTMLParser):
    """Notes which elements are open, and how many of each there are."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_is_a_page_with_pictures(report: QuantizationReport) -> None:
    page, text = Page(), quantization_html(report)
    page.feed(text)
    assert page.open == []
    assert page.counts["tr"] == 4
    assert page.counts["svg"] == 3 * 5
    assert text.index("second<br>") < text.index("first<br>")
    assert "http" not in text
