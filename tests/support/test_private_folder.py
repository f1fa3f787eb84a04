"""Folders that only their owner writes."""

from __future__ import annotations

import os
from pathlib import Path

from afterglow.support.private_folder import make_private, why_not_private


def test_every_folder_that_is_made_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "b" / "c")
        make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for name in ("a", "a/b", "a/b/c"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700


def test_folders_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    make_private(tmp_path / "a" / "b")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755


def test_why_a_folder_is_not_private(tmp_path: Path) -> None:
    assert why_not_private(tmp_path / "missing") is None
    assert why_not_private(Path("a\0b")) is None
    for mode in (0o700, 0o755, 0o775):
        tmp_path.chmod(mode)
        assert why_not_private(tmp_path) is None
    for mode in (0o777, 0o702, 0o1777):
        tmp_path.chmod(mode)
        assert why_not_private(tmp_path) == "every user may write there"
    tmp_path.chmod(0o700)
