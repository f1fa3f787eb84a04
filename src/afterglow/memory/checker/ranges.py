"""Programs for ranges: the same text with numbers in place of expressions over dimensions.

Expressions are read by Python's own parser: their text means the same there.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_STRING = r'"(?:[^"\\]|\\.)*"'
_DIM = re.compile(
    rf"\s*dim (?P<name>{_STRING}|\w+) : (?P<low>\d+)\.\.(?P<high>\d+)(?: by (?P<step>\d+))?\s*",
    re.ASCII,
)
_DECLARES = re.compile(r"\s*(?:[%@]|input |output |const |state )")
_TYPE = re.compile(rf'(?<= )(\w+\[)((?:{_STRING}|[^\];"])*)')
_WINDOW = re.compile(rf'(?<= = view )([^ \[]*\[)((?:{_STRING}|[^\]"])*)')
_LAYOUT = re.compile(r"\{start = (?P<start>.*), strides = \((?P<strides>.*)\)\} : ")
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[[int, int], int]] = {"min": min, "max": max}


@dataclass(frozen=True)
class Dimension:
    """A dimension that a text declares, by its name as it is."""

    name: str
    low: int
    high: int
    step: int


def dimensions_of(text: str) -> list[Dimension]:
    """The dimensions that a program declares."""
    found = []
    for line in text.splitlines():
        match = _DIM.fullmatch(line)
        if match is not None:
            name = json.loads(match["name"]) if match["name"][0] == '"' else match["name"]
            low, high, step = match["low"], match["high"], match["step"] or "1"
            found.append(Dimension(name, int(low), int(high), int(step)))
    return found


def runs_of(dimensions: list[Dimension]) -> list[dict[str, int]]:
    """Extents to check a program with: the largest, the smallest, some between, and mixed ones."""
    ends = [(each.low, each.high) for each in dimensions]
    between = [
        each.low + (each.high - each.low) // each.step // 2 * each.step for each in dimensions
    ]
    mixed = [[pair[(place + turn) % 2] for place, pair in enumerate(ends)] for turn in (0, 1)]
    chosen = [[high for _, high in ends], [low for low, _ in ends], between, *mixed]
    names = [each.name for each in dimensions]
    runs = [dict(zip(names, extents, strict=True)) for extents in chosen]
    return [run for place, run in enumerate(runs) if run not in runs[:place]]


def with_numbers(text: str, extents: Mapping[str, int]) -> str:
    """The text of a run with these extents, line by line; what is no expression stays."""
    return "\n".join(_with_numbers(line, extents) for line in text.splitlines())


def _with_numbers(line: str, extents: Mapping[str, int]) -> str:
    if _DIM.fullmatch(line):
        return ""
    if not _DECLARES.match(line):
        return line
    try:
        line = _TYPE.sub(lambda found: found[1] + _numbers(found[2], extents), line)
        line = _WINDOW.sub(lambda found: found[1] + _windows(found[2], extents), line)
        return _LAYOUT.sub(lambda found: _layout(found, extents), line)
    except (SyntaxError, KeyError, ZeroDivisionError):
        return line


def _layout(found: re.Match[str], extents: Mapping[str, int]) -> str:
    start, strides = _numbers(found["start"], extents), _numbers(found["strides"], extents)
    return f"{{start = {start}, strides = ({strides})}} : "


def _numbers(text: str, extents: Mapping[str, int]) -> str:
    """Expressions with commas between them, as numbers."""
    items = ast.parse(f"[{text}]", mode="eval").body
    assert isinstance(items, ast.List)
    return ", ".join(str(_value(item, extents)) for item in items.elts)


def _windows(text: str, extents: Mapping[str, int]) -> str:
    """Windows with commas between them, each start:stop or start:stop:step, as numbers."""
    subscript = ast.parse(f"x[{text},]", mode="eval").body
    assert isinstance(subscript, ast.Subscript)
    assert isinstance(subscript.slice, ast.Tuple)
    return ", ".join(_window(item, extents) for item in subscript.slice.elts)


def _window(item: ast.expr, extents: Mapping[str, int]) -> str:
    if not isinstance(item, ast.Slice):
        raise SyntaxError("no window")
    ends = [end for end in (item.lower, item.upper, item.step) if end is not None]
    return ":".join(str(_value(end, extents)) for end in ends)


def _value(node: ast.expr, extents: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(int(number)):
            return number
        case ast.Constant(str(name)) | ast.Name(name):
            return extents[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, extents)
        case ast.BinOp(left, kind, right):
            return _OPERATORS[type(kind)](_value(left, extents), _value(right, extents))
        case ast.Call(ast.Name(name), [first, second]):
            return _CALLS[name](_value(first, extents), _value(second, extents))
    raise SyntaxError("no expression")
