"""Reading arrays from NumPy's files, and writing archives of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.support.output_path import MARK
from afterglow.types import Array


def load_arrays(file: Path) -> Array | dict[str, Array]:
    """The array of a `.npy` file, or those of a `.npz` file by name."""
    try:
        loaded = np.load(file, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded}
    except OSError as error:
        reason = (error.strerror or "not a NumPy file").lower()
        raise UsageError(f"cannot read {file}: {reason}") from None
    except (ValueError, EOFError, BadZipFile):
        raise UsageError(
            f"cannot read {file}: not a NumPy file", help="numpy.save and numpy.savez write them"
        ) from None


def save_arrays(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Write arrays as a `.npz` file that is marked as written by Afterglow."""
    np.savez(file, allow_pickle=False, **arrays)
    with ZipFile(file, "a") as archive:
        archive.comment = MARK
