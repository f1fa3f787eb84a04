"""What of a file of `torch.export.save` must not be there: PyTorch's reader would run it.

That reader unpickles tensors of unusual kinds, links machine code that AOTInductor left, and has
expressions of sizes evaluated as Python. All of it is refused before PyTorch sees the file; while
it reads, pickles of anything but plain tensors are refused by PyTorch itself.
"""

from __future__ import annotations

import ast
import io
import json
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from afterglow.support.errors import ModelError, UnsupportedError

_MOST_JSON = 2**28
_MOST_EXPRESSION = 10_000
_NAMES = re.compile(
    r"Symbol|Integer|Rational|Float|Add|Mul|Pow|Abs|Max|Min|\w*Mod|ModularIndexing|Where|Identity"
    r"|Piecewise|ExprCondPair|And|Or|Not|Eq|Ne|Equality|Unequality|(?:Strict)?(?:Less|Greater)Than"
    r"|(?:Floor|Clean|Ceil|IntTrue|FloatTrue)Div|(?:Ceil|Floor|Trunc|Round)To(?:Int|Float)|ToFloat"
    r"|RoundDecimal|PowByNatural|FloatPow|[LR]Shift|(?:OpaqueUnaryFn|BitwiseFn)_\w+"
    r"|[a-z]{1,3}\d+|floor|ceiling|oo|int_oo|zoo"
)
"""Classes of SymPy and PyTorch, symbols, and the functions that sizes are made of."""
_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift")
_MOST_POWERS, _LARGEST_EXPONENT = 3, 16
"""Towers of powers would take forever to evaluate."""
_NODES: tuple[type[ast.AST], ...] = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.Tuple),
    *(ast.UnaryOp, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow),
)
"""What an expression may be made of: calls of named classes, and arithmetic."""
_UNREADABLE = (
    *(zipfile.BadZipFile, EOFError, OSError, ValueError),
    *(RuntimeError, zlib.error, lzma.LZMAError),
)
"""What reading a damaged archive raises: `RuntimeError` if an entry is encrypted."""
_FORCED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_HELP = "if you trust it, load it yourself, and give the program: torch.export.load(path)"


def check_archive(data: memoryview) -> None:
    """Refuse an archive that holds more than a graph and plain tensors."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                _check_entry(archive, entry)
    except _UNREADABLE:
        raise ModelError("the program is damaged: its archive cannot be read") from None


@contextmanager
def plain_tensors() -> Iterator[None]:
    """Let PyTorch load pickles of plain tensors only."""
    before = os.environ.get(_FORCED)
    os.environ[_FORCED] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FORCED]
        else:
            os.environ[_FORCED] = before


def _check_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    if "/data/aotinductor/" in entry.filename or entry.filename.endswith((".so", ".o", ".py")):
        raise UnsupportedError(f"the file holds code ({entry.filename})", help=_HELP)
    if not entry.filename.endswith(".json"):
        return
    if entry.file_size > _MOST_JSON:
        raise ModelError(f"{entry.filename} in it is too large")
    _check_json(json.loads(archive.read(entry)))


def _check_json(root: Any) -> None:
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
            if value.get("use_pickle") is True:
                raise UnsupportedError("the file holds pickled Python objects", help=_HELP)
            if isinstance(value.get("expr_str"), str):
                _check_expression(value["expr_str"])


def _check_expression(text: str) -> None:
    """Refuse what is no arithmetic of sizes."""
    try:
        tree = ast.parse(text[:_MOST_EXPRESSION], mode="eval")
    except (SyntaxError, MemoryError):
        raise ModelError(f"an expression in the program is malformed: {text[:60]!r}") from None
    exponents = list(_exponents(tree))
    is_short = len(text) <= _MOST_EXPRESSION and len(exponents) <= _MOST_POWERS
    if (
        not is_short
        or not all(map(_is_plain, ast.walk(tree)))
        or not all(map(_is_small, exponents))
    ):
        raise ModelError(f"an expression in the program is no arithmetic: {text[:60]!r}")


def _exponents(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.Pow(), right=exponent):
                yield exponent
            case ast.Call(func=ast.Name(id=name), args=[_, exponent, *_]) if name in _POWERS:
                yield exponent


def _is_small(exponent: ast.AST) -> bool:
    """Whether an exponent is one small number, as `2`, `-1` or `Integer(-1)`."""
    match exponent:
        case ast.Constant(value=int() | float() as value):
            return value <= _LARGEST_EXPONENT
        case ast.UnaryOp(operand=operand):
            return _is_small(operand)
        case ast.Call(func=ast.Name(id="Integer" | "Rational"), args=parts):
            return all(map(_is_small, parts))
    return False


def _is_plain(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return _NAMES.fullmatch(name) is not None
        case ast.Constant(value=str() as text):
            return text.isidentifier() and len(text) < 64
        case ast.Call(func=function):
            return isinstance(function, ast.Name)
    return isinstance(node, _NODES)
