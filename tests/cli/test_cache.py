"""`afterglow cache` shows and removes what is cached."""

from __future__ import annotations

import os
import time

import pytest

from tests.cli.test_explain import DIGITS


@pytest.fixture
def filled(command, tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERGLOW_CACHE", str(tmp_path / "cache"))
    command("run", str(DIGITS))
    return tmp_path / "cache"


def test_entries_are_listed_with_the_name_of_the_model(command, filled):
    entries = command("cache", "list", "--json").json["entries"]
    assert [each["model"] for each in entries if each["kind"] == "models"] == ["digits.onnx"]
    assert any(each["kind"] == "kernels" for each in entries)
    assert "digits.onnx" in command("cache", "list").out


def test_the_size_is_that_of_all_files(command, filled):
    data = command("cache", "size", "--json").json
    files = [path for path in filled.rglob("*") if path.is_file()]
    assert data["bytes"] == sum(path.stat().st_size for path in files)


def test_what_was_not_used_for_long_is_pruned(command, filled):
    old = next((filled / "models").iterdir())
    os.utime(old, (time.time() - 40 * 86400,) * 2)
    assert command("cache", "prune", "--older-than", "30d", "--json").json["entries"] == 1
    assert not old.exists()


def test_pruning_to_a_size_removes_the_oldest(command, filled):
    oldest = next((filled / "models").iterdir())
    os.utime(oldest, (1, 1))
    left = command("cache", "size", "--json").json["bytes"] - 1
    command("cache", "prune", "--max-size", str(left))
    assert not oldest.exists()
    assert command("cache", "size", "--json").json["bytes"] <= left


def test_pruning_needs_to_know_what(command, filled):
    command.fails(
        2,
        """
        error: nothing says what to remove
          help: give --max-size or --older-than
        """,
        *("cache", "prune"),
    )


def test_clearing_is_asked_for(command, filled):
    assert command("cache", "clear").status == 2
    assert command("cache", "clear", "--yes").status == 0
    assert command("cache", "size", "--json").json["bytes"] == 0


def test_limits_name_the_folder_and_the_variables(command, filled):
    data = command("cache", "limits", "--json").json
    assert data["folder"] == str(filled)
    assert data["variables"]["AFTERGLOW_CACHE"] == str(filled)
    assert data["limits"]["models"] == 4 << 30


def test_an_empty_cache_is_no_error(command, tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERGLOW_CACHE", str(tmp_path / "nowhere"))
    assert command("cache", "list", "--json").json["entries"] == []
