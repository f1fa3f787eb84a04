from __future__ import annotations

import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.target import NAMED
from tests.cli import models


def test_all_names_are_listed(command):
    finished = command("targets")
    assert finished.status == 0
    for name, target in NAMED.items():
        assert name in finished.out
        assert target.triple in finished.out


def test_the_same_as_json(command):
    listed = command("targets", "--json").json["targets"]
    data = [row for row in listed if row["backend"] == "cpu"]
    assert {row["backend"] for row in listed} >= {"cpu", "interpreter", "primitives"}
    assert [row["name"] for row in data] == ["host", *NAMED]
    for row in data:
        target = Target.of(row["name"])
        assert row["triple"] == target.triple
        assert row["features"] == list(target.features)
    vectors = {row["name"]: row["vector_bits"] for row in data}
    assert vectors["x86-64-v3"] == 256
    assert vectors["cortex-m4"] == 0


@pytest.mark.parametrize("verb", ["compile", "check", "bench"])
def test_an_unknown_cpu(command, tmp_path, verb):
    command.fails(
        2,
        """
        error: no CPU of x86_64 is called 'nosuch'
          help: give a name that LLVM knows, or 'generic', and features
        """,
        *(verb, models.linear(tmp_path), "--target", "x86_64-unknown-linux-gnu+nosuch"),
    )


@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_an_unknown_feature(command, tmp_path, sign):
    target = f"aarch64-unknown-linux-gnu+generic+{sign}nosuch"
    command.fails(
        2,
        """
        error: aarch64 has no feature 'nosuch'
          help: give features by LLVM's names, with commas between them
        """,
        *("dump", models.linear(tmp_path), "--target", target),
    )


def test_bench_times_only_what_runs_here(command, tmp_path):
    command.fails(
        2,
        """
        error: the code for aarch64 does not run here: it needs the architecture aarch64
          help: export a bundle for the other machine: export_bundle(folder, \
target='aarch64'), or afterglow compile MODEL -o FOLDER --target aarch64
        """,
        *("bench", models.linear(tmp_path), "--target", "aarch64"),
    )
