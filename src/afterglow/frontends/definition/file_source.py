"""Definitions that were read from files: what tells whether these are still the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from afterglow.frontends.base import FileDigests
from afterglow.frontends.content import Content
from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.definition.model import ModelDef
from afterglow.support.digest import digest_of_bytes
from afterglow.support.plugins import FRONT_ENDS, plugin_names
from afterglow.support.regular_file import path_inside


class FileSource(DefinedSource):
    """A model read from a file, or from its bytes; other files may lie `beside` it."""

    def __init__(self, content: Content, model: ModelDef, beside: Sequence[str] = ()) -> None:
        super().__init__(model)
        self.content = content
        self._beside = tuple(beside)
        self._paths = self._find_paths()
        self._seen = [_identity(path) for path in self._paths]

    @property
    def path(self) -> Path | None:
        """The model's file, if it came from one."""
        return self.content.path

    def digest(self, files: FileDigests) -> str | None:
        """A digest of the file and of those beside it.

        None if they are no longer what was read, as there is no telling what the digest would be
        of, and if one may not be read, or cannot be; and of the model of a plug-in, which may
        import it in another way next time.
        """
        path = self.path
        if self.model.dialect.name in plugin_names(FRONT_ENDS):
            return None
        if path is None:
            return digest_of_bytes(self.content.data)
        if None in self._seen or [_identity(p) for p in self._paths] != self._seen:
            return None
        try:
            return files.note_files(path, self._beside)
        except OSError:
            return None

    def files(self) -> list[Path]:
        """The model's file, and those beside it."""
        return [path for path in self._find_paths() if path is not None]

    def _find_paths(self) -> list[Path | None]:
        """The files that the model is in; None for those that may not be read."""
        path = self.path
        if path is None:
            return []
        return [path, *(path_inside(path.parent, name) for name in self._beside)]


def _identity(path: Path | None) -> tuple[int, ...] | None:
    """What changes when a file is replaced or written; None if there is none."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
