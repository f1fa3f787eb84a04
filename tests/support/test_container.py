"""Saved sections come back as they were; whatever else is in a file is refused with a reason."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from afterglow.support.container import read_container, write_container
from afterglow.support.errors import UsageError

METADATA = {"name": "größer", "inputs": [["x", [1, 28, 28]]], "arena": 50176, "nested": {"a": None}}
LARGE = np.arange((1 << 20) // 4 + 1, dtype=np.uint32)
SECTIONS = {"code": b"\xc3" * 5000, "empty": b"", "constants": memoryview(LARGE), "last": b"end"}
DAMAGED = "copy the file again, or compile the model again"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.afterglow"
    write_container(path, METADATA, SECTIONS)
    return path


def refusal(path: Path) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        read_container(path)
    what = caught.value.what
    assert what.startswith(f"{path}: ")
    return what.removeprefix(f"{path}: "), caught.value.help


def change(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def rewrite_prelude(path: Path, at: int, number: int) -> None:
    """Change a number at the beginning, and the checksum with it."""
    change(path, at, struct.pack("<I", number))
    change(path, 60, struct.pack("<I", zlib.crc32(path.read_bytes()[:60])))


def test_sections_come_back(path: Path) -> None:
    container = read_container(path)
    assert container.metadata == METADATA
    assert container.names == list(SECTIONS)
    assert "code" in container
    assert "other" not in container
    for name, data in SECTIONS.items():
        assert container.section(name) == memoryview(data).cast("B")


def test_sections_that_hold_the_same_are_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    same = {f"{number}.constants": bytes(range(256)) * 64 for number in range(3)}
    sections = {"empty": b"", **same, "other": b"\1" * 9000, "nothing": b"", "again": b"\1" * 9000}
    write_container(path, METADATA, sections)
    container = read_container(path)
    for name, data in sections.items():
        assert container.section(name) == data
    assert len({container.locate(name) for name in same}) == 1
    assert path.stat().st_size < 2 * 4096 + 16384 + 9000 + 4096


def test_sections_lie_at_pages_of_the_file(path: Path) -> None:
    container = read_container(path)
    constants = np.frombuffer(container.section("constants"), np.uint32)
    assert constants.ctypes.data % 4096 == 0
    for name, data in SECTIONS.items():
        descriptor, offset = container.locate(name)
        assert descriptor > 2
        assert offset % 4096 == 0
        size = memoryview(data).nbytes
        assert path.read_bytes()[offset : offset + size] == bytes(data)


def test_sections_cannot_be_written(path: Path) -> None:
    section = read_container(path).section("code")
    assert section.readonly
    assert not np.frombuffer(section, np.uint8).flags.writeable


def test_sections_outlive_the_container_and_the_file(path: Path) -> None:
    section = read_container(path).section("last")
    path.unlink()
    assert section == b"end"


def test_the_same_content_gives_the_same_bytes(path: Path) -> None:
    before = path.read_bytes()
    write_container(path, METADATA, SECTIONS)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("size", [0, 1, 3900, 4032, 4033, 10_000])
def test_tables_of_any_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    write_container(path, {"text": "x" * size}, {"a": b"1", "b": bytes(4096), "c": b"3"})
    container = read_container(path)
    assert container.metadata == {"text": "x" * size}
    assert [bytes(container.section(name)) for name in "abc"] == [b"1", bytes(4096), b"3"]


def test_no_sections_at_all(path: Path) -> None:
    write_container(path, {}, {})
    assert read_container(path).names == []


def test_a_missing_section_is_named(path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_container(path).section("weights")
    assert caught.value.what == f"{path}: the file has no section 'weights'"
    assert caught.value.help.startswith("its sections: code, empty, constants, last;")


def test_a_missing_file(tmp_path: Path) -> None:
    what, _ = refusal(tmp_path / "nothing")
    assert what == "cannot be opened: No such file or directory"


@pytest.mark.parametrize("content", [b"", b"AFTER", b"PK\3\4" + bytes(100)])
def test_other_files(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert refusal(path) == (
        "not a saved model",
        "give a file that `afterglow` has written",
    )


def test_other_versions(path: Path) -> None:
    rewrite_prelude(path, 8, 4)
    assert refusal(path) == (
        "saved in format 4 by a newer version of Afterglow; this one reads format 3",
        "update Afterglow, or compile the model again with this version",
    )
    rewrite_prelude(path, 8, 0)
    assert refusal(path) == (
        "saved in format 0 by an older version of Afterglow; this one reads format 3",
        "compile the model again with this version",
    )


def test_flags_that_must_be_known(path: Path) -> None:
    rewrite_prelude(path, 12, 1 << 15)
    read_container(path)
    rewrite_prelude(path, 12, 1 << 16)
    what, _ = refusal(path)
    assert what == "the file needs features that this version does not have (flags 0x10000)"


@pytest.mark.parametrize("size", [8, 63, 64, 100, 5000, -1])
def test_truncated_files(path: Path, size: int) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:size])
    whole = f"{len(content):,}" if len(content[:size]) >= 64 else "at least 64"
    what = f"the file is truncated: {len(content[:size]):,} of {whole} bytes"
    assert refusal(path) == (what, DAMAGED)


def test_files_with_something_after_them(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    what, _ = refusal(path)
    assert what == f"the file is too long: {len(content) + 1:,} of {len(content):,} bytes"


@pytest.mark.parametrize("at", [16, 24, 32, 40, 59, 60, 63])
def test_a_changed_beginning(path: Path, at: int) -> None:
    change(path, at, bytes([path.read_bytes()[at] ^ 1]))
    assert refusal(path) == ("the beginning of the file was changed: its checksum is off", DAMAGED)


def test_a_changed_table(path: Path) -> None:
    at = path.read_bytes().index(b"50176")
    change(path, at, b"90176")
    assert refusal(path) == ("the table of sections was changed: its checksum is off", DAMAGED)


def test_a_changed_small_section(path: Path) -> None:
    _, at = read_container(path).locate("code")
    change(path, at + 4999, b"?")
    what, _ = refusal(path)
    assert what == "section 'code' is not what was saved: its checksum is off"


@pytest.mark.parametrize("at", [0, 500_000, LARGE.nbytes - 1])
def test_a_changed_large_section(path: Path, at: int) -> None:
    _, start = read_container(path).locate("constants")
    change(path, start + at, bytes([path.read_bytes()[start + at] ^ 0x80]))
    what = "section 'constants' is not what was saved: its checksum is off"
    assert refusal(path) == (what, DAMAGED)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux says what is mapped")
def test_checking_a_file_leaves_no_page_of_it_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "large"
    write_container(path, {}, {"constants": bytes(8 << 20)})
    container = read_container(path)
    mapped = Path("/proc/self/smaps").read_text().partition(str(path))[2]
    resident = int(mapped.partition("\nRss:")[2].split()[0])
    assert resident < 1 << 10
    assert container.section("constants")[-1] == 0


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe")[0] == "cannot be opened: not a regular file"
