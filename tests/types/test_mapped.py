"""Arrays that are views of a mapped file."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from afterglow.support.regular_file import map_file
from afterglow.types.mapped import release_pages


def _resident(path: Path) -> int:
    """Kilobytes of a mapped file that are in this process's memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(path)):
            return int(next(each for each in lines if each.startswith("Rss:")).split()[1])
    raise LookupError(path)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells what is resident")
def test_released_pages_are_read_again_when_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    whole = np.arange(1 << 20, dtype=np.int32)
    whole.tofile(path)
    mapped = np.frombuffer(map_file(path)[4096:], np.int32).reshape(1, -1, 1024)
    total = int(mapped.sum(dtype=np.int64))
    assert _resident(path) >= 4000
    release_pages(mapped[:, ::-1, :].T)
    assert _resident(path) < 200
    assert int(mapped.sum(dtype=np.int64)) == total


def test_mappings_of_others_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    np.zeros(4096, np.int32).tofile(path)
    array = np.memmap(path, np.int32, mode="c")
    array[:] = 7
    release_pages(array)
    assert isinstance(array._mmap, mmap.mmap)
    assert set(array.tolist()) == {7}
    release_pages(np.zeros((2, 0)))
