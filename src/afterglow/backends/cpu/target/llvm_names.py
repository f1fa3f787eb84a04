"""Checks of names of processors and features: LLVM itself ignores unknown ones with a warning."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import llvmlite.binding as llvm

_UNKNOWN = re.compile(r"'[+-]?(.+)' is not a recognized (processor|feature) for this target")
_STDERR = 2
HELP = "help"
"""A name at which LLVM prints all others."""


def unknown_names(triple: str, cpu: str, features: Sequence[str]) -> tuple[list[str], list[str]]:
    """The processors and the features among these that LLVM does not know."""
    if HELP in (cpu, *features):
        return [HELP], []
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    family = llvm.Target.from_triple(triple)
    with tempfile.TemporaryFile() as said:
        with _standard_error_to(said):
            family.create_target_machine(cpu=cpu, features=",".join(f"+{f}" for f in features))
        said.seek(0)
        found = _UNKNOWN.findall(said.read().decode(errors="replace"))
    by_kind = {kind: [name for name, k in found if k == kind] for kind in ("processor", "feature")}
    processors, unknown = (list(dict.fromkeys(by_kind[kind])) for kind in by_kind)
    return processors, unknown


@contextmanager
def _standard_error_to(file: BinaryIO) -> Iterator[None]:
    """Redirect standard error to a file: LLVM reports unknown names only there."""
    sys.stderr.flush()
    saved = os.dup(_STDERR)
    try:
        os.dup2(file.fileno(), _STDERR)
        yield
    finally:
        os.dup2(saved, _STDERR)
        os.close(saved)
