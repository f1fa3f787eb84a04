"""Output files: the meaning of `-o` and similar options, and what is never overwritten.

The file name extension selects what is written. An existing file is overwritten only if it looks
like one that Afterglow wrote, or with `--force`; the model itself is never overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from afterglow.support.atomic_file import replacing
from afterglow.support.container import is_container
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import MARK, unwritable

Command = TypeVar("Command", bound=Callable[..., Any])

LOOKED_AT = 256
"""Number of bytes at each end of a file that are inspected to find out who wrote it."""
STANDARD_OUTPUT = "-"

_GRAPH = re.compile(rb"(const|state) @|func @|program @|; (after|stage) ")
_PROFILE = re.compile(rb'\{\s*"format": "afterglow profile"')
_REPORT = re.compile(rb'\{\s*"format": "afterglow quantization report"')
_FACTS = re.compile(rb'\{\s*"format": ?"afterglow report"')
_BENCH = re.compile(rb'\{\s*"format": "afterglow bench"')
_TRACE = re.compile(rb'\{\s*"format": "afterglow trace"')
_DOT = re.compile(rb'digraph "[^"]*" \{\n  node \[fontname="Helvetica"')


@dataclass(frozen=True)
class FileKind:
    """A kind of output file: its extensions, and how to recognise one that Afterglow wrote."""

    name: str
    suffixes: tuple[str, ...]
    is_ours: Callable[[bytes, bytes], bool]
    mark: bytes = b""
    """Comment appended to a text file, by which it is recognised later."""


def _begins(pattern: re.Pattern[bytes]) -> Callable[[bytes, bytes], bool]:
    return lambda first, _: pattern.match(first) is not None


def _is_marked(_: bytes, last: bytes) -> bool:
    return MARK in last


COMPILED = FileKind("a compiled model", (".agc",), lambda first, _: is_container(first))
PROGRAM = FileKind("a program as text", (".txt", ".agi"), _begins(_GRAPH))
GRAPH = FileKind("a graph as text", (".txt", ".agg"), _begins(_GRAPH))
LLVM = FileKind("LLVM IR", (".ll", ".txt"), _is_marked, b"; %s\n" % MARK)
ASSEMBLY = FileKind("assembly", (".s", ".asm", ".txt"), _is_marked, b"/* %s */\n" % MARK)
OPENCL = FileKind("kernels in OpenCL C", (".cl", ".txt"), _is_marked, b"// %s\n" % MARK)
TRITON = FileKind("kernels in Triton's language", (".py", ".txt"), _is_marked, b"# %s\n" % MARK)
DOT = FileKind("a Graphviz graph", (".dot", ".gv"), _begins(_DOT))
PICTURE = FileKind("a picture", (".svg",), _is_marked, b"<!-- %s -->\n" % MARK)
PAGE = FileKind("a page", (".html",), _is_marked, b"<!-- %s -->\n" % MARK)
REPORT = FileKind("a report", (".json",), _begins(_REPORT))
FACTS = FileKind("the facts of a report", (".json",), _begins(_FACTS))
PROFILE = FileKind("a profile", (".json",), _begins(_PROFILE))
BENCH = FileKind("a result of a benchmark", (".json",), _begins(_BENCH))
TRACE = FileKind("a trace", (".json",), _begins(_TRACE))
ONNX = FileKind("an ONNX model", (".onnx",), lambda first, _: b"\x12\x09Afterglow" in first[:16])
ARCHIVE = FileKind("an archive of arrays", (".npz",), _is_marked)


@dataclass(frozen=True)
class Destination:
    """A file that may be written, or standard output if the path is None."""

    kind: FileKind
    path: Path | None

    def write_text(self, text: str) -> None:
        """Write the text to the file or to standard output."""
        if self.path is None:
            click.echo(text, nl=not text.endswith("\n"))
            return
        with writing(self.path) as file:
            file.write(text.encode() + self.kind.mark)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing; it replaces the old one only when complete (devices: directly)."""
    try:
        if _is_special(path):
            with path.open("wb") as file:
                yield file
        else:
            with replacing(Path(os.path.realpath(path))) as file:
                yield file
    except OSError as error:
        raise unwritable(path, error) from None


def takes_force(command: Command) -> Command:
    """Decorator that adds the option `--force` to a command."""
    text = "Also overwrite files that Afterglow did not write."
    return click.option("--force", is_flag=True, help=text)(command)


def file_for(
    text: str | None, kinds: Sequence[FileKind], model: str, *, option: str, force: bool
) -> Destination:
    """The destination for the value of an option; its extension must be one of the given kinds.

    Without a value it is standard output.
    """
    if text is None:
        return Destination(kinds[0], None)
    path = Path(text)
    if _is_special(path):
        return Destination(kinds[0], path)
    fitting = [kind for kind in kinds if path.suffix.lower() in kind.suffixes]
    if not fitting or text.endswith(os.sep):
        raise _no_kind(text, kinds, option)
    check_replaceable(path, fitting[0], model, force=force)
    return Destination(fitting[0], path)


def compiled_place(
    text: str | None, bundle_options: Sequence[str], model: str, *, force: bool
) -> Destination | Path | None:
    """The destination of `compile -o`: a file, or the folder of a bundle as a Path.

    A name means a folder if such a folder exists, if it has no extension, or if it ends with a
    slash. Bundle options are valid only with a folder.
    """
    kinds = (COMPILED, PROGRAM, ONNX)
    if text is None:
        if bundle_options:
            raise UsageError(
                f"{bundle_options[0]} is an option for bundles, which are written to a folder",
                help="add -o FOLDER",
            )
        return None
    path = Path(text)
    if any(path.suffix.lower() in kind.suffixes for kind in kinds) and not text.endswith(os.sep):
        if bundle_options:
            raise UsageError(
                f"{bundle_options[0]} is an option for bundles, but {path} names a file",
                help=f"give a folder for the bundle: -o {path.stem}/",
            )
        return file_for(text, kinds, model, option="-o", force=force)
    if not _names_folder(text):
        raise _no_kind(text, kinds, "-o", "/ for the folder of a bundle")
    if path.exists() and not path.is_dir():
        raise UsageError(f"cannot write a bundle to {path}: it is a file", help="give a folder")
    return path


def _names_folder(text: str) -> bool:
    """Whether a name means a folder rather than a file."""
    if text in ("", STANDARD_OUTPUT):
        return False
    return text.endswith(os.sep) or Path(text).is_dir() or not Path(text).suffix


def check_replaceable(path: Path, kind: FileKind, model: str, *, force: bool) -> None:
    """Refuse to overwrite a folder, the model, or a file that Afterglow did not write."""
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder", help="give the name of a file")
    if _is_same(path, Path(model)):
        raise UsageError(
            f"{path} is the model itself, which is never overwritten", help="give another name"
        )
    if not force and path.exists() and not kind.is_ours(*_ends(path)):
        raise not_ours(path, kind.name)


def not_ours(path: Path, wanted: str) -> UsageError:
    """The error for an existing file that Afterglow did not write."""
    return UsageError(
        f"{path} already exists and is not {wanted} written by Afterglow",
        help="give another name, or --force to overwrite it",
    )


def _no_kind(text: str, kinds: Sequence[FileKind], option: str, *others: str) -> UsageError:
    names = (f"{' or '.join(kind.suffixes)} for {kind.name}" for kind in kinds)
    return UsageError(
        f"{option} {text or repr(text)}: the extension does not say what to write",
        help=f"end the name with {'; '.join((*names, *others))}",
    )


def _is_special(path: Path) -> bool:
    """Whether the path exists and is neither a file nor a folder, such as /dev/null."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


def _ends(path: Path) -> tuple[bytes, bytes]:
    try:
        with path.open("rb") as file:
            first = file.read(LOOKED_AT)
            file.seek(max(0, path.stat().st_size - LOOKED_AT))
            return first, file.read()
    except OSError as error:
        raise unwritable(path, error) from None
