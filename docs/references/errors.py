"""The page of errors: every type, what it is a kind of, and when it is raised."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import afterglow as ag
from afterglow.support.errors import AfterglowError
from references.markdown import cell, table

PACKAGE = Path(ag.__file__).parent
BASE = AfterglowError.__name__
HEAD = """\
# Error types

Generated from the code. Each has the fields `what`, `where`, `excerpt`, `help` and `exit_status`
([how to read one](errors.md)); [troubleshooting](troubleshooting.md) goes from symptoms to causes.
All are kinds of `afterglow.AfterglowError`: catching that catches every error that is raised on
purpose.

## Exported by the package
"""
MORE = """\

## More specific ones

They say more precisely what a public type says, and are caught by it; those of the importer and of
type rules become one of the above, with the name of the node, before a user sees them.
"""


class ErrorType(NamedTuple):
    """An error class of the source."""

    name: str
    base: str
    module: str
    status: int | None
    meaning: str


def errors_page() -> str:
    """The public types, then all others."""
    types = _types()
    public = [t for t in types.values() if t.name in ag.__all__]
    more = [t for t in types.values() if t.name not in ag.__all__]
    head = ("error", "kind of", "exit status", "when")
    rows = [(f"`{t.name}`", f"`{t.base}`", str(_status(t, types)), t.meaning) for t in public]
    lines = [HEAD, *table(head, rows), MORE]
    rows = [(f"`{t.module}.{t.name}`", f"`{t.base}`", t.meaning) for t in more]
    return "\n".join([*lines, *table(("error", "kind of", "when"), rows), ""])


def _types() -> dict[str, ErrorType]:
    """Error classes by name, the base first, then in the order of the alphabet."""
    classes = {c.name: c for path in sorted(PACKAGE.rglob("*.py")) for c in _classes(path)}
    known = {BASE}
    while more := {c.name for c in classes.values() if c.base in known} - known:
        known |= more
    return {name: classes[name] for name in [BASE, *sorted(known - {BASE})]}


def _classes(path: Path) -> Iterator[ErrorType]:
    text = path.read_text(encoding="utf-8")
    if "Error(" not in text:
        return
    module = ".".join(("afterglow", *path.relative_to(PACKAGE).with_suffix("").parts))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.bases and not node.name.startswith("_"):
            meaning = cell((ast.get_docstring(node) or "").split("\n\n")[0])
            base = ast.unparse(node.bases[0])
            yield ErrorType(node.name, base, module, _own_status(node), meaning)


def _own_status(node: ast.ClassDef) -> int | None:
    for line in node.body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "exit_status":
            return int(ast.literal_eval(line.value))
    return None


def _status(type: ErrorType, types: dict[str, ErrorType]) -> int:
    while type.status is None:
        type = types[type.base]
    return type.status
