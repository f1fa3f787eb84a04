"""Nodes imported by the ops that users bind to them: operands in order, attributes by name."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.model import AttributeDef
from afterglow.graph import Op, Value
from afterglow.support.errors import ModelError
from afterglow.support.own_ops import bound_op

CUSTOM_OPTIONS = "custom_options"
"""The attribute that has the bytes of what TFLite has for attributes: a class may do without."""


def own_importer(
    dialect: str, domain: str, op_type: str
) -> Callable[[NodeContext], tuple[Value, ...]] | None:
    """What imports nodes of an op of a dialect by an op of a user's own; None if none is bound."""
    cls = bound_op(dialect, domain, op_type)
    return None if cls is None else lambda node: _imported(node, cls)


def _imported(node: NodeContext, cls: type[Op]) -> tuple[Value, ...]:
    given = {n: each for n, each in node.attributes.items() if not _is_operand(n, each)}
    if CUSTOM_OPTIONS not in typing.get_type_hints(cls):
        given.pop(CUSTOM_OPTIONS, None)
    op = cls(**dict(_attributes(cls, given)))
    operands = [node.get(index) for index in range(len(node))]
    return node.emit_all(op, *operands)


def _is_operand(name: str, attribute: AttributeDef) -> bool:
    """Whether an attribute is about an operand or a result, as some of torch and TFLite are."""
    return not name.isidentifier() or str(attribute.value).startswith("%")


def _attributes(cls: type[Op], given: dict[str, AttributeDef]) -> Iterator[tuple[str, Any]]:
    declared: Any = cls
    kinds, own = typing.get_type_hints(cls), fields(declared)
    unknown = [name for name in given if name not in {field.name for field in own}]
    if unknown:
        names = ", ".join(field.name for field in own) or "none"
        raise ModelError(
            f"{cls.mnemonic} has no attribute {unknown[0]!r}", help=f"its attributes are: {names}"
        )
    for field in own:
        if field.name in given:
            yield field.name, _fitted(field.name, given[field.name].value, kinds[field.name])
        elif field.default is MISSING:
            raise ModelError(f"attribute {field.name!r} is missing")


def _fitted(name: str, value: Any, kind: Any) -> Any:
    """The value of an attribute as the class declares it: models have no booleans, for instance."""
    options = typing.get_args(kind) or (kind,)
    plain = {type(value)} <= {int, float, str, tuple, bool}
    if plain and (typing.get_origin(kind) is tuple) == isinstance(value, tuple):
        if isinstance(value, tuple):
            return tuple(_fitted(name, each, options[0]) for each in value)
        for option in options:
            if isinstance(option, type) and issubclass(option, Enum):
                return _member(name, value, option)
            if option in (int, float, bool) and isinstance(value, (int, float)):
                if option(value) == value:
                    return option(value)
            elif option is type(value) or option is Any:
                return value
    wanted = getattr(kind, "__name__", str(kind))
    raise ModelError(f"attribute {name!r} must be of type {wanted}, it is {value!r}")


def _member(name: str, value: Any, enum: type[Enum]) -> Enum:
    try:
        return enum(value)
    except ValueError:
        listed = ", ".join(repr(member.value) for member in enum)
        raise ModelError(f"attribute {name!r} must be one of {listed}, it is {value!r}") from None
