"""Samples: from Python, arrays, files and folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterglow.driver.images import ImageOptions
from afterglow.driver.samples import Samples
from afterglow.runtime import TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types.dtype import f32, i64

ONE = (TensorInfo("x", f32, (1, 3)),)
TWO = (TensorInfo("x", f32, (2, 3)), TensorInfo("n", i64, ()))
FREE = (TensorInfo("x", f32, ("batch", 3)),)
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def read(given: Any, inputs: tuple[TensorInfo, ...] = ONE, **options: Any) -> list[Any]:
    """Labels and feeds, as lists."""
    found = Samples.of(given, inputs, ImageOptions(), options.get("limit"))
    return [
        (sample.label, {name: np.asarray(x).tolist() for name, x in sample.feed.items()})
        for sample in found
    ]


def arrays(given: Any, inputs: tuple[TensorInfo, ...] = ONE) -> list[Any]:
    return [feed["x"] for _, feed in read(given, inputs)]


def test_any_iterable_gives_samples() -> None:
    rows = [X[i : i + 1].tolist() for i in range(2)]
    assert arrays([{"x": X[:1]}, {"x": X[1:2]}]) == rows
    assert arrays(X[i : i + 1] for i in range(2)) == rows
    assert arrays([(X[:1],), (X[1:2],)]) == rows


def test_tuples_have_the_order_of_the_inputs() -> None:
    assert read([(X[:2], 7)], TWO) == [("sample 0", {"x": X[:2].tolist(), "n": 7})]


def test_arrays_are_cut_along_their_first_axis() -> None:
    assert arrays(X) == [X[i : i + 1].tolist() for i in range(4)]
    assert arrays(X, FREE) == [X[i : i + 1].tolist() for i in range(4)]
    assert arrays(X[np.newaxis], ONE) == [X.tolist()]  # an axis more: its elements are the samples
    two = read({"x": X, "n": np.array(5)}, TWO)
    assert two == [
        ("array[0]", {"x": X[:2].tolist(), "n": 5}),
        ("array[1]", {"x": X[2:].tolist(), "n": 5}),
    ]


def test_files_give_their_samples_in_order(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", X[:2])
    np.savez(tmp_path / "a.npz", x=X[2:3])
    (tmp_path / "notes.txt").write_text("no sample")
    assert read(tmp_path) == [
        ("a.npz", {"x": [X[2].tolist()]}),
        ("b.npy[0]", {"x": [X[0].tolist()]}),
        ("b.npy[1]", {"x": [X[1].tolist()]}),
    ]
    assert arrays(str(tmp_path / "b.npy")) == [[X[0].tolist()], [X[1].tolist()]]


def test_no_more_samples_are_read_than_wanted() -> None:
    def endless() -> Iterator[np.ndarray]:
        while True:
            yield X[:1]

    assert len(read(endless(), limit=3)) == 3
    assert Samples(endless(), ONE, limit=3).count == 3


def test_the_number_of_samples_is_known_where_it_can_be(tmp_path: Path) -> None:
    assert Samples([X[:1]] * 5, ONE).count == 5
    assert Samples([X[:1]] * 5, ONE, limit=2).count == 2
    assert Samples(iter([X]), ONE).count is None
    assert Samples(X, ONE).count == 4
    assert Samples({"x": X, "n": np.array(5)}, TWO).count == 2
    np.save(tmp_path / "x.npy", X)
    assert Samples(tmp_path, ONE).count is None
    assert Samples.of(tmp_path / "x.npy", ONE, ImageOptions(), None).count == 4
    (tmp_path / "x.npy").unlink()
    (tmp_path / "a.png").write_bytes(b"")
    assert Samples(tmp_path, ONE).count == 1


def fails(given: Any, text: str, inputs: tuple[TensorInfo, ...] = ONE) -> None:
    with pytest.raises(UsageError) as caught:
        read(given, inputs)
    assert str(caught.value) == f"error: {text}"


def test_what_gives_no_samples_is_refused(tmp_path: Path) -> None:
    fails(
        7,
        "samples must be something to iterate over, or a path, got 7\n"
        "  help: give a list of dictionaries {input: array}, FILE.npz, or a folder",
    )
    missing = tmp_path / "missing"
    fails(missing, f"there are no samples at {missing}: no such file or folder")
    kinds = ".npy, .npz, .png, .jpg, .jpeg, .bmp, .webp, .gif, .tif, .tiff, .ppm"
    fails(tmp_path, f"there are no samples in {tmp_path}\n  help: files may be {kinds}")
    text = tmp_path / "x.txt"
    text.write_text("1")
    fails(
        text,
        f"cannot read samples from {text}\n"
        "  help: give FILE.npy, FILE.npz, an image, or a folder of such files",
    )
    broken = tmp_path / "x.npz"
    broken.write_text("1")
    fails(
        broken,
        f"cannot read {broken}: not a NumPy file\n  help: numpy.save and numpy.savez write them",
    )
    with pytest.raises(UsageError, match="the limit must be above 0, got 0"):
        Samples([], ONE, limit=0)


def test_samples_of_the_wrong_form_are_named() -> None:
    fails(
        [(X,), (X, X)],
        "a sample has 2 arrays, but the model takes 1\n  in sample 1\n"
        "  help: give a dictionary, or arrays in the order of the inputs: x",
    )
    fails({"z": X}, "the model has no input 'z'\n  in array\n  help: it has x")
    fails(
        {"x": X, "n": np.arange(3)},
        "arrays must have the same number of samples\n  in array\n    x: 2\n    n: 3\n"
        "  help: the first axis of an array counts the samples",
        TWO,
    )
