"""Reading and writing arrays: .npy and .npz files."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from afterglow.cli.destination import writing
from afterglow.driver.array_files import load_arrays
from afterglow.support.errors import UsageError
from afterglow.support.names import NameScope
from afterglow.types import Array, DType
from afterglow.types.dtype import Kind


def read_array(path: Path) -> Array:
    """The array in a .npy file."""
    loaded = load_arrays(path)
    if not isinstance(loaded, np.ndarray):
        raise UsageError(f"{path} holds several arrays, but one is needed", help="give a .npy file")
    return loaded


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays in a .npz file, by name."""
    loaded = load_arrays(path)
    if isinstance(loaded, np.ndarray):
        raise UsageError(
            f"{path} holds one array without a name", help=f"write --input NAME={path}"
        )
    return loaded


def as_declared(array: Array, dtype: DType) -> Array:
    """The array viewed as the model's element type, if NumPy's file format lacks that type.

    Such files store bfloat16 and similar types as raw bytes, and strings as fixed-width Unicode.
    """
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype.numpy)
    if dtype.kind is Kind.STRING and array.dtype.kind == "U":
        return array.astype(object)
    return array


def write_arrays(folder: Path, arrays: Mapping[str, Array], *, force: bool = False) -> list[Path]:
    """Write one .npy file per array, named after it; other characters in names become `_`.

    An existing file with different contents is overwritten only with `force`.
    """
    scope = NameScope()
    names = (scope.claim(re.sub(r"[^\w.\-]", "_", name)) for name in arrays)
    paths = [folder / f"{name}.npy" for name in names]
    contents = dict(zip(paths, map(_npy, arrays.values()), strict=True))
    there = [path for path in contents if path.exists() and not force]
    for path in there:
        if not path.is_file() or path.read_bytes() != contents[path]:
            raise UsageError(
                f"{path} already exists, with different contents",
                help="give another folder, or --force to replace it",
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        with writing(path) as file:
            file.write(content)
    return paths


def _npy(array: Array) -> memoryview:
    """The contents of a .npy file with this array."""
    file = io.BytesIO()
    np.save(file, array.astype(str) if array.dtype == object else array)
    return file.getbuffer()
