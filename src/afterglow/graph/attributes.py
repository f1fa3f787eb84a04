"""Attributes of ops as text: `{axis = -1, mode = "linear"}`, both ways."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from afterglow.graph.op import Op
from afterglow.graph.subgraph import Subgraph
from afterglow.support.lexer import TokenStream
from afterglow.support.names import spell
from afterglow.types.dtype import DTYPES, DType
from afterglow.types.extent.text import (
    continue_call,
    continue_extent,
    continues,
    declared_extent,
    parse_extent,
    starts_call,
)

_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None}


def attributes_text(op: Op) -> str:
    """Every attribute, defaults too, in the order of declaration; empty if there is none."""
    pairs = [f"{f.name} = {value_text(getattr(op, f.name))}" for f in fields(op)]  # type: ignore[arg-type]  # ops are dataclasses
    return "{" + ", ".join(pairs) + "}" if pairs else ""


def value_text(value: Any) -> str:
    """One attribute value."""
    match value:
        case True | False | None:
            return str(value).lower()
        case Enum():
            return str(value.value)
        case str():
            return json.dumps(value)
        case bytes():
            return json.dumps(value.decode("latin-1"))
        case tuple():
            inner = ", ".join(map(value_text, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case Subgraph():
            return spell("@", value.function.name)
        case DType():
            return value.name
    return repr(value)


def parse_attributes(
    tokens: TokenStream, cls: type[Op], function: Callable[[str], Subgraph]
) -> dict[str, Any]:
    """Parse `{name = value, …}` into the fields of `cls`; nothing there means no attributes."""
    found: dict[str, Any] = {}
    if not tokens.accept("{"):
        return found
    declared: Any = cls
    kinds = _field_types(declared)
    while not tokens.accept("}"):
        name = tokens.take("word", "an attribute")
        if name not in kinds:
            raise tokens.error(f"{cls.mnemonic} has no attribute {name!r}")
        tokens.expect("=")
        found[name] = _coerce(_parse_value(tokens, function), kinds[name], tokens)
        if tokens.next.text != "}":
            tokens.expect(",")
    return found


@cache
def _field_types(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


class _Word(str):
    """A bare word: true, false, none, an element type, or a member of an enumeration."""


def parse_pairs(tokens: TokenStream) -> dict[str, Any]:
    """Parse `{name = value, …}` whose names nobody declares; nothing there means no pairs."""
    found: dict[str, Any] = {}
    if not tokens.accept("{"):
        return found
    while not tokens.accept("}"):
        name = tokens.take("word", "a name")
        tokens.expect("=")
        value = _parse_value(tokens, lambda name: _no_function(tokens, name))
        found[name] = _settled(value, tokens)
        if tokens.next.text != "}":
            tokens.expect(",")
    return found


def _settled(value: Any, tokens: TokenStream) -> Any:
    """A value whose type nobody declares: the names of dimensions in it are extents."""
    if isinstance(value, tuple):
        return tuple(_settled(part, tokens) for part in value)
    is_dim = isinstance(value, _Word) and value in tokens.extents
    return tokens.extents[value] if is_dim else value


def _no_function(tokens: TokenStream, name: str) -> Subgraph:
    raise tokens.error(f"expected a value, found @{name}")


def _parse_value(tokens: TokenStream, function: Callable[[str], Subgraph]) -> Any:
    value = _parse_part(tokens, function)
    if not continues(tokens):
        return value
    (first,) = value if isinstance(value, tuple) and len(value) == 1 else (value,)
    if isinstance(first, str):
        first = declared_extent(tokens, first)
    if not isinstance(first, int):
        raise tokens.error(f"expected ',', found {tokens.next.text!r}")
    return continue_extent(tokens, first)


def _parse_part(tokens: TokenStream, function: Callable[[str], Subgraph]) -> Any:
    """A value, or the first factor of an expression: one in parentheses looks like a tuple."""
    token = tokens.next
    if token.text == "-":
        return parse_extent(tokens)
    if tokens.accept("("):
        items = []
        while not tokens.accept(")"):
            items.append(_parse_value(tokens, function))
            if tokens.next.text != ")":
                tokens.expect(",")
        return tuple(items)
    match token.kind:
        case "number":
            text = tokens.take("number")
            return int(text) if text.lstrip("-").isdigit() else float(text)
        case "string":
            return json.loads(tokens.take("string"))
        case "name":
            return function(tokens.name("@", "a function"))
        case "word":
            word = tokens.take("word")
            return continue_call(tokens, word) if starts_call(tokens, word) else _Word(word)
    raise tokens.error(f"expected a value, found {token.text!r}")


def _coerce(value: Any, kind: Any, tokens: TokenStream) -> Any:
    """Fit a parsed value to the type of its field."""
    if isinstance(value, _Word):
        return _named(value, kind, tokens)
    if isinstance(value, str) and value in tokens.extents and not _admits(kind, str):
        return tokens.extents[value]
    if _admits(kind, float) and isinstance(value, int) and not isinstance(value, bool):
        return value if _admits(kind, int) else float(value)
    if isinstance(value, tuple):
        items = typing.get_args(_tuple_part(kind))
        return tuple(_coerce(item, items[0] if items else Any, tokens) for item in value)
    return value.encode("latin-1") if kind is bytes else value


def _named(word: str, kind: Any, tokens: TokenStream) -> Any:
    options = (kind, *typing.get_args(kind))
    enums = [o for o in options if isinstance(o, type) and issubclass(o, Enum)]
    members = {str(member.value): member for enum in enums for member in enum}
    named = {**tokens.extents, **_WORDS, **(DTYPES if DType in options else {}), **members}
    if word not in named:
        known = f", there are {', '.join(members)}" if members else ""
        raise tokens.error(f"no such value: {word!r}{known}")
    return named[word]


def _admits(kind: Any, wanted: type) -> bool:
    return kind is wanted or wanted in typing.get_args(kind)


def _tuple_part(kind: Any) -> Any:
    options = (kind, *typing.get_args(kind))
    return next((option for option in options if typing.get_origin(option) is tuple), kind)
