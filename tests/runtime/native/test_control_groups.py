"""Limits of control groups, of a process in nested groups, in both versions of the interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterglow.runtime.native.control_groups import granted_cores, granted_memory


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """A process in the group /outer/inner of each tree."""
    file = tmp_path / "membership"
    file.write_text("4:memory:/outer/inner\n3:cpu,cpuacct:/outer/inner\n0::/outer/inner\n")
    return file


def test_the_tightest_quota_of_nested_groups_counts(tmp_path: Path, member: Path) -> None:
    write(tmp_path / "outer", cpu__max="200000 100000", memory__max="4096")
    write(tmp_path / "outer" / "inner", cpu__max="400000 100000", memory__max="max")
    assert granted_cores(tmp_path, member) == 2.0
    assert granted_memory(tmp_path, member) == 4096


def test_the_own_group_is_read(tmp_path: Path, member: Path) -> None:
    write(tmp_path / "outer" / "inner", cpu__max="150000 100000", memory__max="8192")
    write(tmp_path / "other", cpu__max="10000 100000", memory__max="1")
    assert granted_cores(tmp_path, member) == 1.5
    assert granted_memory(tmp_path, member) == 8192


def test_a_container_that_does_not_see_its_path_has_the_root(tmp_path: Path, member: Path) -> None:
    write(tmp_path, cpu__max="100000 100000", memory__max="1024")
    assert granted_cores(tmp_path, member) == 1.0
    assert granted_memory(tmp_path, member) == 1024


def test_the_first_version_has_a_tree_for_each_controller(tmp_path: Path, member: Path) -> None:
    quota, period = {"cpu__cfs_quota_us": "50000"}, {"cpu__cfs_period_us": "100000"}
    write(tmp_path / "cpu", cpu__cfs_quota_us="-1", **period)
    write(tmp_path / "cpu" / "outer" / "inner", **quota, **period)
    write(tmp_path / "memory" / "outer", memory__limit_in_bytes="512")
    assert granted_cores(tmp_path, member) == 0.5
    assert granted_memory(tmp_path, member) == 512


@pytest.mark.parametrize("text", ["max 100000", "-1 100000", "100000", "", "x y", "100000 0"])
def test_what_says_no_number_is_no_limit(tmp_path: Path, member: Path, text: str) -> None:
    write(tmp_path, cpu__max=text, memory__max=text)
    assert granted_cores(tmp_path, member) is None
    assert granted_memory(tmp_path, member) in (None, 100000)


def test_a_system_without_groups_has_no_limit(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert granted_cores(nowhere, nowhere) is None
    assert granted_memory(nowhere, nowhere) is None
