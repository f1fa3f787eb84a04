"""The arguments of calls in FX graphs as attributes and operands: see `node.py` for how."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from afterglow.frontends.definition.model import AttributeDef, AttributeKind
from afterglow.frontends.torch.elements import element_type
from afterglow.support.errors import UnsupportedError

_SCALARS = (
    (bool, AttributeKind.BOOL),
    (int, AttributeKind.INT),
    (float, AttributeKind.FLOAT),
    (str, AttributeKind.STRING),
)
_LISTS = {
    AttributeKind.BOOL: AttributeKind.BOOLS,
    AttributeKind.INT: AttributeKind.INTS,
    AttributeKind.FLOAT: AttributeKind.FLOATS,
    AttributeKind.STRING: AttributeKind.STRINGS,
}


class Arguments:
    """Collects the operands of one call while its arguments are written as attributes."""

    def __init__(self, name_of: Callable[[fx.Node], str]) -> None:
        self.name_of = name_of
        self.operands: list[str] = []

    def attributes(self, node: fx.Node) -> dict[str, AttributeDef]:
        """The arguments of a call by name, but for those that are None."""
        given = {name: self._attribute(value) for name, value in named_arguments(node)}
        return {name: each for name, each in given.items() if each is not None}

    def _attribute(self, value: Any) -> AttributeDef | None:
        value = self._plain(value)
        if value is None:
            return None
        if isinstance(value, tuple):
            return _list(value)
        return AttributeDef(_kind(value), value)

    def _plain(self, value: Any) -> Any:
        """A number, a text, None, or a tuple of such."""
        match value:
            case fx.Node():
                return self._operand(value)
            case list() | tuple():
                return tuple(self._plain(each) for each in value)
            case torch.dtype():
                return element_type(value).name
            case torch.device() | torch.layout() | torch.memory_format():
                return str(value).removeprefix("torch.")
            case complex():
                return str(value)
        return value

    def _operand(self, node: fx.Node) -> str:
        name = self.name_of(node)
        if name not in self.operands:
            self.operands.append(name)
        return f"%{self.operands.index(name)}"


def named_arguments(node: fx.Node) -> Iterator[tuple[str, Any]]:
    """The arguments of a call by the names of the op's schema, with its defaults."""
    assert callable(node.target)
    if not isinstance(node.target, torch._ops.OpOverload):
        yield from _bound(node.target, node.args, node.kwargs)
        return
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(node.args) and not argument.kwarg_only:
            yield argument.name, node.args[index]
        elif argument.name in node.kwargs:
            yield argument.name, node.kwargs[argument.name]
        elif argument.has_default_value():
            yield argument.name, argument.default_value


def _bound(function: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    """The arguments of a Python function, such as the arithmetic of sizes."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        is_wrapped = isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], list)
        yield name, value[0] if is_wrapped else value  # sym_sum takes one list as all arguments


def _kind(value: Any) -> AttributeKind:
    for python, kind in _SCALARS:
        if isinstance(value, python):
            return kind
    raise UnsupportedError(f"an argument is a {type(value).__name__}")


def _list(items: tuple[Any, ...]) -> AttributeDef:
    """A list of one kind; of texts if operands or None are among them."""
    kinds = {None if item is None else _kind(item) for item in items}
    if not kinds:
        return AttributeDef(AttributeKind.INTS, ())
    if kinds == {AttributeKind.INT, AttributeKind.FLOAT}:
        return AttributeDef(AttributeKind.FLOATS, tuple(map(float, items)))
    if len(kinds) > 1 or None in kinds:
        texts = tuple("" if item is None else str(item) for item in items)
        return AttributeDef(AttributeKind.STRINGS, texts)
    (kind,) = kinds
    assert kind is not None
    return AttributeDef(_LISTS[kind], items)
