"""A file is replaced as a whole, or stays as it was."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterglow.support.atomic_file import replace_file


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old and long")
    replace_file(path, [b"new", memoryview(b"er")], durable=durable)
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"half"
        raise OSError("no space left")

    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="no space left"):
        replace_file(path, parts())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_stays(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "folder", [b"new"])
    with pytest.raises(OSError, match="not a regular file"):
        replace_file(tmp_path / "pipe", [b"new"])
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "pipe"}


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(0o600)
    replace_file(path, [b"new"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_names_may_be_as_long_as_the_system_lets_them(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    replace_file(path, [b"new"])
    assert path.read_bytes() == b"new"
