"""Files beside a model that hold its tensors, mapped into memory."""

from __future__ import annotations

from pathlib import Path

from afterglow.frontends.definition.problems import DataFileError
from afterglow.frontends.onnx.messages import TensorProto
from afterglow.frontends.onnx.wire import OWN_FILE
from afterglow.support.errors import ModelError
from afterglow.support.regular_file import map_file, path_inside

_MOST_DIGITS = 19
"""Digits of the longest file that there can be."""
_MOST_SHOWN = 80
"""Characters of a text from the file that an error shows."""


class DataFiles:
    """The model's own bytes, and those of the files in its folder that it refers to."""

    def __init__(self, own: memoryview, folder: Path | None) -> None:
        self._folder = folder
        self._files = {OWN_FILE: own}

    @staticmethod
    def none() -> DataFiles:
        """No files: those of a message that holds its tensors itself."""
        return DataFiles(memoryview(b""), None)

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
                f"its data would be bytes {offset:,} to {offset + length:,} of {_shown(location)}, "
                f"which has {len(data):,} bytes"
            )
        return data[offset : offset + length]

    def _path(self, location: str) -> Path:
        """Where a file is: in the model's folder or below it, and nowhere else."""
        if self._folder is None:
            raise ModelError(
                f"its data are in the file {_shown(location)}, "
                "but the model did not come from a file",
                help="give the path of the model, or load its external data first",
            )
        path = path_inside(self._folder, location)
        if path is None:
            raise ModelError(f"its data are outside of the model's folder, in {_shown(location)}")
        return path


def _mapped(path: Path, location: str) -> memoryview:
    try:
        return map_file(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataFileError(location, reason.lower()) from None


def _number(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise ModelError(f"the {key} of its external data is {_shown(text)}, not a number of bytes")
    digits = text.lstrip("0")
    if len(digits) > _MOST_DIGITS:
        raise ModelError(
            f"the {key} of its external data has {len(digits):,} digits: no file is that long"
        )
    return int(digits or "0")


def _shown(text: str) -> str:
    """A text of the file in quotes; of a long one, the beginning."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")
