"""Files beside a model that hold its tensors, mapped into memory."""

from __future__ import annotations

import mmap
from pathlib import Path, PurePosixPath, PureWindowsPath

from onnx import TensorProto

from afterglow.frontends.onnx.wire import OWN_FILE
from afterglow.support.errors import ModelError


class DataFiles:
    """The model's own bytes, and those of the files in its folder that it refers to."""

    def __init__(self, own: memoryview, folder: Path | None) -> None:
        self._folder = folder
        self._files = {OWN_FILE: own}

    def bytes_of(self, tensor: TensorProto) -> memoryview:
        """The bytes of a tensor with external data: a view, nothing is read yet."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if not all(isinstance(text, str) for pair in entries.items() for text in pair):
            raise ModelError("the place of its external data is not UTF-8 text")
        location = entries.get("location", "")
        if location not in self._files:
            self._files[location] = _mapped(self._path(location), location)
        data = self._files[location]
        offset = _number(entries, "offset", 0)
        length = _number(entries, "length", max(0, len(data) - offset))
        if offset + length > len(data):
            raise ModelError(
                f"its data would be bytes {offset:,} to {offset + length:,} of {location!r}, "
                f"which has {len(data):,} bytes"
            )
        return data[offset : offset + length]

    def _path(self, location: str) -> Path:
        """Where a file is: in the model's folder or below it, and nowhere else."""
        if self._folder is None:
            raise ModelError(
                f"its data are in the file {location!r}, but the model did not come from a file",
                help="give the path of the model, or load its external data first",
            )
        spellings = (PurePosixPath(location), PureWindowsPath(location))
        leaves = any(path.anchor or ".." in path.parts for path in spellings)
        path = self._folder / location
        if not location or leaves or not _is_inside(path, self._folder):
            raise ModelError(f"its data are outside of the model's folder, in {location!r}")
        return path


def map_file(path: Path) -> memoryview:
    """The bytes of a file: read as they are used, and shared with whoever else reads it."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:  # which cannot be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _mapped(path: Path, location: str) -> memoryview:
    try:
        return map_file(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelError(
            f"its data are in the file {location!r}, which cannot be read: {reason.lower()}"
        ) from None


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether the path stays in the folder when all symbolic links are followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a loop of links, a byte no path can have
        return False


def _number(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise ModelError(f"the {key} of its external data is {text!r}, not a number of bytes")
    return int(text)
