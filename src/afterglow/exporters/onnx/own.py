"""Nodes of ops that users have bound to an ONNX domain, as models have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from afterglow.graph import Function, Op
from afterglow.support.errors import UnsupportedError
from afterglow.support.own_ops import bound_name

if TYPE_CHECKING:
    from afterglow.exporters.onnx.node import NodeWriter

_DIALECT = "onnx"


def is_bound(op: Op) -> bool:
    """Whether a user has bound an op to one of ONNX."""
    return op.own and bound_name(_DIALECT, type(op)) is not None


def own_domains(function: Function) -> list[str]:
    """The domains of users' own ops in a function."""
    functions = (function, *function.subgraphs())
    names = (bound_name(_DIALECT, type(n.op)) for f in functions for n in f.nodes if n.op.own)
    return sorted({name[0] for name in names if name is not None and name[0]})


def write_own(node: NodeWriter) -> Sequence[str]:
    """Operands in order, attributes by name."""
    name = bound_name(_DIALECT, type(node.op))
    assert name is not None
    domain, op_type = name
    given = {field.name: getattr(node.op, field.name) for field in fields(node.op)}
    attributes = {key: _plain(key, value) for key, value in given.items() if value is not None}
    count = len(node.node.results)
    return node.file.add(op_type, node.operands, node.node.name, count, attributes, domain)


def _plain(name: str, value: Any) -> Any:
    """An attribute as ONNX has it."""
    match value:
        case Enum():
            return value.value
        case bool():
            return int(value)
        case int() | float() | str() | bytes():
            return value
        case tuple():
            return [_plain(name, each) for each in value]
    raise UnsupportedError(f"ONNX has no attribute for {name!r}, {value!r}")
