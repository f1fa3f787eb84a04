"""Writing a bundle: a folder of files that need nothing but each other."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path

from afterglow.backends.cpu.bundle import BundleCode, describe_object
from afterglow.bundles.description import describe, digest_of, to_json
from afterglow.bundles.header import write_header
from afterglow.bundles.makefiles import write_cmake, write_makefile, write_readme
from afterglow.bundles.pool import POOL_C, POOL_H
from afterglow.bundles.program import write_program
from afterglow.bundles.shared import library_name, link_library
from afterglow.runtime.bundle import Bundle
from afterglow.runtime.library_file import seal_library
from afterglow.runtime.native.status import Status
from afterglow.support.atomic_file import replace_file


def write_bundle(code: BundleCode, folder: Path, *, shared: bool = False) -> Bundle:
    """Write all files of a bundle, over those that are there."""
    made_by, digest = version("afterglow"), digest_of(code)
    description = describe(code, made_by, digest)
    text = to_json(description)
    meanings = [status.meaning for status in Status]
    files: dict[str, bytes | memoryview | str] = {
        f"{code.name}.o": code.object,
        f"{code.name}.h": write_header(code, made_by, digest),
        f"{code.name}.json": text,
        "main.c": write_program(code, meanings),
        "pool.c": POOL_C,
        "pool.h": POOL_H,
        "Makefile": write_makefile(code),
        "CMakeLists.txt": write_cmake(code),
        "README.md": write_readme(code, made_by),
    }
    if not code.embedded:
        files[f"{code.name}.weights"] = code.weights.data
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replace_file(folder / name, [content.encode() if isinstance(content, str) else content])
    library = _link(code, folder, text) if shared else None
    return Bundle(folder, code.name, description, library)


def _link(code: BundleCode, folder: Path, text: str) -> Path:
    """The shared library: the code, and its description."""
    library = library_name(code.name, code.target)
    with tempfile.TemporaryDirectory() as scratch:
        described, linked = Path(scratch) / "describe.o", Path(scratch) / "linked"
        described.write_bytes(describe_object(code.name, text, code.target))
        linked.mkdir()
        link_library([folder / f"{code.name}.o", described], linked / library, code.target)
        seal_library(linked / library)
        for file in linked.iterdir():  # linkers for Windows write more than the library
            replace_file(folder / file.name, [file.read_bytes()])
            (folder / file.name).chmod(file.stat().st_mode)
    return folder / library
