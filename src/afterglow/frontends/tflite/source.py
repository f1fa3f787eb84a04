"""TFLite models as sources: files and bytes."""

from __future__ import annotations

from pathlib import Path

from afterglow.frontends.base import FileDigests
from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.tflite import importers  # noqa: F401  fills the table of the dialect
from afterglow.frontends.tflite.reader import read_file
from afterglow.frontends.tflite.translate import translate_file
from afterglow.support.digest import digest_of_bytes
from afterglow.support.errors import AfterglowError


class TfliteSource(DefinedSource):
    """A TFLite model, read once and imported for each binding."""

    def __init__(self, data: memoryview, path: Path | None) -> None:
        self._data = data
        self._path = path
        try:
            super().__init__(translate_file(read_file(data)))
        except AfterglowError as error:
            if path is not None:
                error.where = f"{error.where} of {path}" if error.where else f"in {path}"
            raise

    @property
    def path(self) -> Path | None:
        """The model's file, if it came from one."""
        return self._path

    def digest(self, files: FileDigests) -> str | None:
        """A digest of the file."""
        return digest_of_bytes(self._data)

    def files(self) -> list[Path]:
        """The model's file."""
        return [] if self._path is None else [self._path]
