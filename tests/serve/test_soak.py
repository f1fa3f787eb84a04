"""The mixed load runs for some seconds: right answers, no crash, no growth."""

from __future__ import annotations

import random

from benchmarks.serve_soak.malformed import COMPLETION, body
from benchmarks.serve_soak.picture import soak_svg
from benchmarks.serve_soak.run import Plan, soak, write_json
from benchmarks.serve_soak.tally import Tally


def test_some_seconds_of_mixed_load_find_nothing(tmp_path):
    tally = soak(Plan(seconds=1.0, malformed=200, pause=0.02))
    assert tally.failures == []
    kinds = {"http, bytes", "http, JSON", "grpc", "text", "vanished", "unloaded and loaded"}
    assert kinds <= tally.counts.keys()
    assert tally.counts["malformed"] == 200
    assert len(tally.samples) > 10
    write_json(tally, tmp_path / "soak.json")
    assert soak_svg(tally.samples).count("<polyline") == 3


def test_growth_is_what_the_last_tenth_has_more_than_the_third():
    tally = Tally()
    for second in range(100):
        tally.sample(second, 100.0 + (second if second < 20 else 20) + (second >= 90) * 7, 10)
    assert tally.growth() == 7


def test_malformed_bodies_of_completions_are_drawn_alike_from_a_seed():
    first, second = (
        [body(random.Random(seed), COMPLETION) for seed in range(20)] for _ in range(2)
    )
    assert first == second
    assert len({*first}) > 10
