from __future__ import annotations

from pathlib import Path

import numpy as np

import afterglow
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.report.page.collect import collect_report

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


def test_quantized_values_have_ranges_and_the_histograms_of_the_profile():
    samples = np.random.default_rng(0).uniform(0, 16, (4, 1, 8, 8)).astype(np.float32)
    profile = afterglow.profile(str(DIGITS), samples)
    options = Options(precision="int8", profile=profile)
    report = collect_report("digits", open_source(str(DIGITS)), options, None, 1)
    found = report.data()["quantization"]
    assert (found["products"], found["integer_products"]) == (3, 3)
    assert {value["name"] for value in found["values"]} >= {"scaled.quantized", "relu1.quantized"}
    for value in found["values"]:
        assert value["low"] < value["high"]
        assert value["picture"].startswith("<svg")


def test_a_model_in_floats_has_no_such_section():
    source = open_source(str(DIGITS))
    assert "quantization" not in collect_report("digits", source, Options(), None, 1).data()
