from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchmarks.picture import ratio_svg
from benchmarks.roofline import LEFT, WIDTH, Dot, Roof, roofline_svg

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture):
    return [element.text for element in ET.fromstring(picture).iter() if element.text]


def test_the_picture_of_ratios():
    drawn = texts(ratio_svg([("small & fast", 1, 0.5), ("small & fast", 2, 1.25)]))
    for wanted in ("small & fast", "0.50", "1.25", "1 thread", "2 threads"):
        assert wanted in drawn


DOTS = [Dot("a & b", 10.0, 50.0), Dot("dense", 1000.0, 100.0), Dot("light", 1.0, 5.0)]


def roofline(dots=DOTS):
    return roofline_svg("Roofs", dots, 100.0, [Roof("cache", 50.0), Roof("memory", 10.0)])


def test_every_model_and_roof_is_named():
    drawn = texts(roofline())
    for wanted in ("a & b", "dense", "light", "Roofs", "cache, 50 GB/s", "memory, 10 GB/s"):
        assert wanted in drawn
    assert "arithmetic, 100 GFLOP/s" in drawn


def test_roofs_rise_to_the_arithmetic_and_no_further():
    root = ET.fromstring(roofline())
    roofs = [line.attrib for line in root.iter(f"{SVG}line") if line.attrib["class"] == "roof"]
    level, cache, memory = roofs
    assert level["y1"] == level["y2"] == cache["y2"] == memory["y2"]
    assert level["x1"] == cache["x2"]
    assert float(cache["x2"]) < float(memory["x2"]) < float(level["x2"])


def test_dots_lie_where_their_numbers_are():
    circles = list(ET.fromstring(roofline()).iter(f"{SVG}circle"))
    places = {c.find(f"{SVG}title").text.split(":")[0]: c.attrib for c in circles}
    xs = [float(places[name]["cx"]) for name in ("light", "a & b", "dense")]
    assert xs[1] - xs[0] == pytest.approx((xs[2] - xs[1]) / 2, abs=0.2)  # decades are alike
    assert float(places["dense"]["cy"]) < float(places["a & b"]["cy"])


def test_names_do_not_cover_each_other():
    crowd = [Dot(f"model {i}", 10.0 + i / 50, 50.0) for i in range(8)]
    root = ET.fromstring(roofline(crowd))
    named = [t.attrib for t in root.iter(f"{SVG}text") if (t.text or "").startswith("model")]
    places = {(t["x"], t["y"]) for t in named}
    assert len(places) == len(crowd)
    assert all(LEFT <= float(t["x"]) <= LEFT + WIDTH for t in named)
