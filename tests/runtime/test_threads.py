"""Numbers of threads are checked alike wherever they are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow import onnx_backend
from afterglow.runtime.threads import checked_threads, threads_of_stream
from afterglow.support.errors import UsageError
from tests.frontends.models import model, node

LEAVE_OUT = "omit it to use all cores"
WRONG = {
    -1: ("threads must be 1 or more, got -1", ""),
    0: ("threads must be 1 or more, got 0", ""),
    2.5: ("threads must be a whole number, got 2.5", LEAVE_OUT),
    "2": ("threads must be a whole number, got '2'", LEAVE_OUT),
    float("nan"): ("threads must be a whole number, got nan", LEAVE_OUT),
    1025: ("threads must be 1,024 or fewer, got 1025", LEAVE_OUT),
    10**30: ("threads must be 1,024 or fewer, got one of 100 bits", LEAVE_OUT),
}


def ways(folder: Path) -> dict[str, object]:
    """What takes a number of threads: a function of it."""
    source = model([node("Neg", ["x"], ["y"])])
    onnx.save(source, folder / "model.onnx")
    afterglow.compile(folder / "model.onnx", cache=folder / "cache").save(folder / "model.agc")
    return {
        "compile": lambda n: afterglow.compile(source, threads=n, cache=False),
        "interpret": lambda n: afterglow.compile(source, threads=n, backend="interpreter"),
        "from the cache": lambda n: afterglow.compile(
            folder / "model.onnx", threads=n, cache=folder / "cache"
        ),
        "load": lambda n: afterglow.load(folder / "model.agc", threads=n),
        "load a library": lambda n: afterglow.load(folder / "libmodel.so", threads=n),
        "prepare": lambda n: onnx_backend.prepare(source, threads=n),
    }


def test_wrong_numbers_of_threads_are_refused_everywhere(tmp_path: Path) -> None:
    for way in ways(tmp_path).values():
        for number, (what, help) in WRONG.items():
            with pytest.raises(UsageError) as caught:
                way(number)  # type: ignore[operator]
            assert (caught.value.what, caught.value.help) == (what, help)


@pytest.mark.parametrize("truth", [True, False])
def test_truth_is_no_number_of_threads(truth: bool) -> None:
    with pytest.raises(UsageError, match=f"threads must be a whole number, got {truth}"):
        checked_threads(truth)


def test_whole_numbers_of_any_type_are_taken(tmp_path: Path) -> None:
    assert checked_threads(None) is None
    assert checked_threads(np.int64(3)) == 3
    assert type(checked_threads(np.uint8(3))) is int
    x = np.ones((2, 3), np.float32)
    for name, way in ways(tmp_path).items():
        if name not in ("load a library", "prepare"):
            np.testing.assert_array_equal(way(np.int32(2))(x), -x)  # type: ignore[operator]


def test_streams_divide_the_cores_that_quotas_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afterglow.runtime.threads.usable_cores", lambda: 4)
    assert threads_of_stream(None, 1) is None
    assert threads_of_stream(None, 2) == 2
    assert threads_of_stream(None, 3) == 1
    assert threads_of_stream(None, 8) == 1
    assert threads_of_stream(3, 2) == 3
