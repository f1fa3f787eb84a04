"""A file is replaced as a whole, or stays as it was."""

from __future__ import annotations

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
