"""`NAME.sha256`: the files of a bundle with their digests, as `sha256sum` writes and checks them.

A file in the folder is ours if a manifest there has its name and its digest. Whatever else is there
belongs to somebody else, also a file of ours that was edited.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from afterglow.support.errors import UsageError

Content: TypeAlias = "bytes | memoryview"

SUFFIX = ".sha256"
MOST_BYTES = 1 << 16
"""A longer file is no manifest of ours."""
_LINE = re.compile(r"([0-9a-f]{64})  ([^/]+)")


def manifest_name(name: str) -> str:
    """The file name of the manifest of a bundle."""
    return f"{name}{SUFFIX}"


def digest_of_content(content: Content) -> str:
    """The digest of a file that holds this."""
    return hashlib.sha256(content).hexdigest()


def write_manifest(path: Path, digests: Mapping[str, str]) -> bytes:
    """The content of a manifest; files that were listed and are as they were stay listed."""
    old = {name: d for name, d in read_manifest(path).items() if _holds(path.parent / name, d)}
    listed = sorted({**old, **digests}.items())
    return "".join(f"{digest}  {name}\n" for name, digest in listed).encode()


def read_manifest(path: Path) -> dict[str, str]:
    """The digests of files by their names; empty if there is none, or it is no manifest."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found = [_LINE.fullmatch(line) for line in lines]
    return {match[2]: match[1] for match in found if match} if all(found) else {}


def check_replaceable(
    folder: Path, files: Mapping[str, Content | None], never: Iterable[Path], *, force: bool
) -> None:
    """Refuse to write files over what is not ours, and always over those in `never`.

    What is None is not known yet. A file that is there as it would be written is no matter.
    """
    there = [folder / name for name in files if (folder / name).exists()]
    _refuse_sources(there, never)
    if force or not there:
        return
    manifests = [read_manifest(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    foreign = sorted(p.name for p in there if not _is_ours(p, files[p.name], manifests))
    if foreign:
        raise UsageError(
            f"{folder} has files that are not of a bundle: {', '.join(foreign)}",
            help="give another folder, or force (--force) to replace them",
        )


def _refuse_sources(paths: Iterable[Path], never: Iterable[Path]) -> None:
    sources = [source for source in never if source.exists()]
    for path in paths:
        if any(path.samefile(source) for source in sources):
            raise UsageError(
                f"{path} belongs to the model itself: it is never overwritten",
                help="give another folder, or another name for the bundle",
            )


def _is_ours(path: Path, content: Content | None, manifests: Iterable[Mapping[str, str]]) -> bool:
    if not path.is_file():
        return False
    if path.suffix == SUFFIX:
        return bool(read_manifest(path))
    known = {listed[path.name] for listed in manifests if path.name in listed}
    if content is not None:
        known.add(digest_of_content(content))
    return any(_holds(path, digest) for digest in known)


def _holds(path: Path, digest: str) -> bool:
    """Whether a file has this digest."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        return False
