from __future__ import annotations

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.target import NAMED


def test_all_names_are_listed(command):
    finished = command("targets")
    assert finished.status == 0
    for name, target in NAMED.items():
        assert name in finished.out
        assert target.triple in finished.out


def test_the_same_as_json(command):
    data = command("targets", "--json").json["targets"]
    assert [row["name"] for row in data] == ["host", *NAMED]
    for row in data:
        target = Target.of(row["name"])
        assert row["triple"] == target.triple
        assert row["features"] == list(target.features)
    vectors = {row["name"]: row["vector_bits"] for row in data}
    assert vectors["x86-64-v3"] == 256
    assert vectors["cortex-m4"] == 0
