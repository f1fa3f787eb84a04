"""Writing a bundle for GPUs: a folder of files that need nothing but the driver."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from afterglow.backends.bundling.fields import Field, fields_of
from afterglow.backends.bundling.manifest import (
    Content,
    check_replaceable,
    digest_of_content,
    manifest_name,
    write_manifest,
)
from afterglow.backends.cuda.bundle.code import GpuCode
from afterglow.backends.cuda.bundle.header import write_header
from afterglow.backends.cuda.bundle.launcher import write_launcher
from afterglow.backends.cuda.bundle.program import write_makefile, write_program, write_readme
from afterglow.runtime.bundle import Bundle
from afterglow.support.atomic_file import replace_file


def write_bundle(
    code: GpuCode, folder: Path, *, force: bool = False, never: Sequence[Path] = ()
) -> Bundle:
    """Write all files of a bundle, over those of an earlier one.

    Files of others are replaced only by `force`, and those in `never` not even then.
    """
    made_by = version("afterglow")
    description = describe(code, made_by)
    files: dict[str, Content] = {
        name: text.encode() for name, text in _texts(code, made_by, description).items()
    }
    files[f"{code.name}.bin"] = code.data.data
    manifest = folder / manifest_name(code.name)
    check_replaceable(folder, {**files, manifest.name: None}, never, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replace_file(folder / name, [content])
    digests = {name: digest_of_content(content) for name, content in files.items()}
    replace_file(manifest, [write_manifest(manifest, digests)])
    sizes = ("code and weights", (code.data.nbytes,)), ("arena", (description["arena_bytes"],))
    return Bundle(folder, code.name, description, sizes=sizes)


def _texts(code: GpuCode, made_by: str, description: dict[str, Any]) -> dict[str, str]:
    return {
        f"{code.name}.h": write_header(code, made_by, description["digest"]),
        f"{code.name}.c": write_launcher(code),
        f"{code.name}.json": json.dumps(description, indent=2, ensure_ascii=False) + "\n",
        "main.c": write_program(code),
        "Makefile": write_makefile(code),
        "README.md": write_readme(code, made_by),
    }


def describe(code: GpuCode, made_by: str) -> dict[str, Any]:
    """The description, as what JSON can hold."""
    fields = fields_of(code)
    return {
        "format": 1,
        "afterglow": made_by,
        "name": code.name,
        "digest": hashlib.sha256(code.data.data).hexdigest()[:32],
        "target": {"name": code.manifest["target"]["name"], "compute_capability": code.arch},
        "data": {
            "file": f"{code.name}.bin",
            "bytes": code.data.nbytes,
            "checksum": f"{code.checksum:016x}",
        },
        "arena_bytes": code.manifest["arena_bytes"],
        "kernels": [part["kernel"] for part in code.manifest["parts"]],
        "checks": code.manifest["checks"] if code.gives_alarms else [],
        **{
            f"{role}s": [_described(field) for field in fields if field.role == role]
            for role in ("input", "output", "state")
        },
    }


def _described(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "member": field.member,
        "dtype": field.type.dtype.name,
        "shape": [*field.type.shape],
        "bytes": field.type.nbytes,
    }
