"""What is wrong with the path of a result is said before or after the attempt to write it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from afterglow.support.errors import UsageError
from afterglow.support.output_path import checked_path, writing


def test_paths_may_be_text_or_objects() -> None:
    for path in ("a/b", Path("a/b"), PurePosixPath("a/b")):
        assert checked_path(path, "file") == Path("a/b")


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (None, "the path of a file must be a string or a pathlib.Path, got None"),
        (b"name", "the path of a file must be a string or a pathlib.Path, got b'name'"),
        ("", "no file can be called ''"),
        ("a\0b", "no file can be called 'a\\x00b'"),
    ],
)
def test_what_is_no_path(path: object, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_path(path, "file")
    assert caught.value.what == what


def test_a_failure_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught, writing(tmp_path):
        tmp_path.write_bytes(b"")
    assert caught.value.what == f"cannot write {tmp_path}: is a directory"
