"""Files that others name are opened only if they are what they should be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from afterglow.support import regular_file
from afterglow.support.regular_file import open_regular, path_inside


def test_a_regular_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"content"


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "missing")


def test_a_file_that_becomes_a_pipe_does_not_stop_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    regular = os.stat_result((stat.S_IFREG, *range(9)))
    monkeypatch.setattr(regular_file.os, "stat", lambda _: regular)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "pipe")


@pytest.mark.parametrize(
    "location", ["", "/etc/passwd", "..", "a/../../b", "C:\\b", "..\\b", "out", "a/loop", "a\0b"]
)
def test_locations_outside_of_a_folder(tmp_path: Path, location: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "a" / "loop").symlink_to("loop")
    assert path_inside(tmp_path, location) is None


def test_locations_inside_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "in").symlink_to("a/file")
    for location in ("file", "a/file", "./a/./file", "in", "missing"):
        assert path_inside(tmp_path, location) == tmp_path / location
