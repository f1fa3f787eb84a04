"""The cache on disk: finds what was put, forgets what is damaged or old, and never fails."""

from __future__ import annotations

import errno
import hashlib
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from afterglow.support import disk_cache
from afterglow.support.disk_cache import DiskCache, default_folder
from afterglow.support.errors import AfterglowWarning

FOOTER = 24


def key(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


def entry(cache: DiskCache, name: object) -> Path:
    return cache.folder / f"{key(name)}.entry"


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "some" / "cache", 1 << 20)


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 100], ids=len)
def test_what_was_put_is_found(cache: DiskCache, data: bytes) -> None:
    assert cache.get(key(1)) is None
    assert cache.get_mapped(key(1)) is None
    cache.put(key(1), memoryview(data))
    assert cache.get(key(1)) == data
    mapped = cache.get_mapped(key(1))
    assert mapped is not None
    assert (bytes(mapped), mapped.readonly) == (data, True)
    assert DiskCache(cache.folder, 100).get(key(1)) == data
    assert cache.get(key(2)) is None


def test_the_last_one_put_counts(cache: DiskCache) -> None:
    cache.put(key(1), b"old")
    mapped = cache.get_mapped(key(1))
    cache.put(key(1), b"new")
    assert cache.get(key(1)) == b"new"
    assert mapped == b"old"


@pytest.mark.parametrize("way", ["get", "get_mapped"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:10],
        lambda data: data + b"\0",
        lambda data: data[:50] + b"?" + data[51:],
        lambda data: data[:-FOOTER],
        lambda data: bytes(len(data)),
    ],
    ids=["emptied", "cut", "short", "longer", "changed", "no footer", "zeros"],
)
def test_damaged_entries_are_removed(cache: DiskCache, way: str, damage) -> None:
    cache.put(key(1), bytes(range(100)))
    path = entry(cache, 1)
    path.write_bytes(damage(path.read_bytes()))
    assert getattr(cache, way)(key(1)) is None
    assert not path.exists()


def test_an_entry_under_another_key_is_not_believed(cache: DiskCache) -> None:
    cache.put(key(1), b"one")
    entry(cache, 1).rename(entry(cache, 2))
    assert cache.get(key(2)) is None


def test_what_was_not_used_for_long_goes_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10_000)
    for i in range(8):
        cache.put(key(i), bytes(1000))
        os.utime(entry(cache, i), (100 + i, 100 + i))
    cache.get(key(0))
    cache.get_mapped(key(2))
    for i in range(8, 12):
        cache.put(key(i), bytes(1000))
    left = {i for i in range(12) if entry(cache, i).exists()}
    assert left >= {0, 2, 8, 9, 10, 11}
    assert not left & {1, 3}


def test_the_size_is_bounded(tmp_path: Path) -> None:
    caches = [DiskCache(tmp_path, 40_000) for _ in range(2)]
    for i in range(200):
        caches[i % 2].put(key(i), bytes(1000 + i))
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 45_000
    assert caches[0].get(key(199)) == bytes(1199)


def test_the_folder_is_not_scanned_on_every_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scans.append(path) or scan(path))
    cache = DiskCache(tmp_path, 1 << 20)
    for i in range(100):
        cache.put(key(i), bytes(1000))
    assert len(scans) == 1


def test_what_exceeds_the_limit_is_not_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1000)
    cache.put(key(1), bytes(900))
    cache.put(key(2), bytes(1000))
    assert cache.get(key(1)) == bytes(900)
    assert cache.get(key(2)) is None


def test_files_that_were_never_finished_go(tmp_path: Path) -> None:
    old, fresh = tmp_path / ".a.part", tmp_path / ".b.part"
    old.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(old, (time.time() - 10_000,) * 2)
    DiskCache(tmp_path, 1000).put(key(1), b"one")
    assert not old.exists()
    assert fresh.exists()


def test_a_folder_that_cannot_be_made_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    cache = DiskCache(tmp_path / "file" / "cache", 1000)
    with pytest.warns(AfterglowWarning, match="nothing is cached in .*cache: not a directory$"):
        cache.put(key(1), b"one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(key(2), b"said once is enough")
    assert cache.get(key(1)) is None
    assert cache.get_mapped(key(1)) is None


def test_a_full_disk_means_no_cache(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk_cache, "replace_file", full)
    with pytest.warns(AfterglowWarning, match="nothing is cached in .*: no space left on device$"):
        cache.put(key(1), b"one")
    assert cache.get(key(1)) is None


def test_keys_are_digests(cache: DiskCache) -> None:
    for wrong in ("", "../../etc/passwd", "ABCDEF12", "abcdef12/", "xyz"):
        with pytest.raises(ValueError, match="a key is a hexadecimal digest"):
            cache.get(wrong)


def write_and_read(folder: Path) -> int:
    """How many of the entries found are wrong, while others write the same ones."""
    cache = DiskCache(folder, 50_000)
    wrong = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(100):
            cache.put(key(i % 10), bytes([i % 10]) * 4000)
            found = cache.get(key((i * 7) % 10))
            wrong += found is not None and found != bytes([(i * 7) % 10]) * 4000
    return wrong


def test_processes_share_a_cache(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3) as pool:
        assert list(pool.map(write_and_read, [tmp_path] * 3)) == [0, 0, 0]
    assert not list(tmp_path.glob("*.part"))


def test_default_folders() -> None:
    home = {"HOME": "/home/me"}
    assert default_folder(home) == Path("/home/me/.cache/afterglow")
    assert default_folder({**home, "XDG_CACHE_HOME": "/xdg"}) == Path("/xdg/afterglow")
    own = {**home, "XDG_CACHE_HOME": "/xdg", "AFTERGLOW_CACHE": "/own"}
    assert default_folder(own) == Path("/own")
    assert default_folder({**home, "AFTERGLOW_CACHE": ""}) == Path("/home/me/.cache/afterglow")
    assert default_folder({}).name == "afterglow"
