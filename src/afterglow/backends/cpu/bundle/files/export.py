"""Writing a bundle: a folder of files that need nothing but each other."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from afterglow.backends.bundling.manifest import (
    Content,
    check_replaceable,
    digest_of_content,
    manifest_name,
    write_manifest,
)
from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.describe import describe_object
from afterglow.backends.cpu.bundle.files.description import describe, digest_of, to_json
from afterglow.backends.cpu.bundle.files.header import write_header
from afterglow.backends.cpu.bundle.files.language import language_files
from afterglow.backends.cpu.bundle.files.makefiles import building_files, write_readme
from afterglow.backends.cpu.bundle.files.shared import library_name, link_library
from afterglow.runtime.bundle import Bundle
from afterglow.runtime.library_file import seal_library
from afterglow.support.atomic_file import replace_file

_OF_AN_ENTRY = {
    "arena": "arena_bytes",
    "scratch per thread": "scratch_bytes",
    "stack": "stack_bytes",
}
"""Memory that a run of an entry needs, with its key in the description."""


def write_bundle(
    code: BundleCode,
    folder: Path,
    *,
    shared: bool = False,
    force: bool = False,
    never: Sequence[Path] = (),
) -> Bundle:
    """Write all files of a bundle, over those of an earlier one.

    Files of others are replaced only by `force`, and those in `never` not even then.
    """
    made_by, digest = version("afterglow"), digest_of(code)
    description = describe(code, made_by, digest)
    text = to_json(description)
    files = _files(code, made_by, digest, text)
    manifest = folder / manifest_name(code.name)
    library = folder / library_name(code.name, code.target) if shared else None
    linked = {} if library is None else {library.name: None}
    check_replaceable(folder, {**files, **linked, manifest.name: None}, never, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replace_file(folder / name, [content])
    digests = {name: digest_of_content(content) for name, content in files.items()}
    if library is not None:
        _link(code, folder, text, library)
        digests[library.name] = digest_of_content(library.read_bytes())
    replace_file(manifest, [write_manifest(manifest, digests)])
    entries = description["entries"]
    names = tuple(entry["prefix"] for entry in entries) if len(entries) > 1 else ()
    return Bundle(folder, code.name, description, library, _sizes(description), names)


def _sizes(description: dict[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The bytes of code and weights, and of the memory that a run of each entry needs."""
    of_an_entry = tuple(
        (name, tuple(int(entry[key]) for entry in description["entries"]))
        for name, key in _OF_AN_ENTRY.items()
    )
    code, weights = description["code_bytes"], description["weights"]["bytes"]
    return ("code", (code,)), ("weights", (weights,)), *of_an_entry


def _files(code: BundleCode, made_by: str, digest: str, text: str) -> dict[str, Content]:
    """The files of a bundle, but for those that are made of them; the text describes it."""
    texts = {
        f"{code.name}.h": write_header(code, made_by, digest),
        f"{code.name}.json": text,
        "README.md": write_readme(code, made_by),
        **building_files(code),
    }
    files: dict[str, Content] = {name: content.encode() for name, content in texts.items()}
    files.update(language_files(code))
    files[f"{code.name}.o"] = code.object
    if not code.embedded:
        files[f"{code.name}.weights"] = code.weights.data
    return files


def _link(code: BundleCode, folder: Path, text: str, library: Path) -> None:
    """The shared library: the code, and its description."""
    with tempfile.TemporaryDirectory() as scratch:
        described, linked = Path(scratch) / "describe.o", Path(scratch) / "linked"
        described.write_bytes(describe_object(code.name, text, code.target))
        linked.mkdir()
        made = linked / library.name
        link_library([folder / f"{code.name}.o", described], made, code.target)
        seal_library(made)
        for file in linked.iterdir():  # linkers for Windows write more than the library
            replace_file(folder / file.name, [file.read_bytes()])
            (folder / file.name).chmod(file.stat().st_mode)
