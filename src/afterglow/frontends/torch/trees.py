"""Names for the leaves of nested arguments and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def input_names(spec: Any, arguments: Sequence[str]) -> list[str]:
    """What the leaves of a call's arguments are called: `x`, `past.0.key`.

    `arguments` are the names of the positional arguments, then those of the others.
    """
    positional, named = spec.children()
    children = [*positional.children(), *named.children()]
    if len(arguments) != len(children):
        numbers = (f"arg{index}" for index in range(len(positional.children())))
        arguments = [*numbers, *map(str, named.context or ())]
    pairs = zip(arguments, children, strict=True)
    return [leaf for name, child in pairs for leaf in _leaf_names(child, name)]


def output_names(spec: Any) -> list[str]:
    """What the leaves of a result are called: `logits`, `past.0.key`; `output` if it is one.

    Those of a list are `output.0`, `output.1`, …
    """
    keys = None if spec.is_leaf() else _keys(spec, len(spec.children()))
    if keys is None or not all(isinstance(key, str) for key in keys):
        return list(_leaf_names(spec, "output"))
    pairs = zip(keys, spec.children(), strict=True)
    return [leaf for key, child in pairs for leaf in _leaf_names(child, key)]


def _leaf_names(spec: Any, name: str) -> Iterator[str]:
    if spec.is_leaf():
        yield name
        return
    children = spec.children()
    for key, child in zip(_keys(spec, len(children)), children, strict=True):
        yield from _leaf_names(child, f"{name}.{key}")


def _keys(spec: Any, count: int) -> list[Any]:
    """What the children of a tree are called: keys, names of fields, or numbers."""
    context = spec.context
    fields = getattr(context, "_fields", None)  # of a named tuple
    nested = context[0] if isinstance(context, list) and context else None  # of a dataclass
    for names in (context, fields, nested):
        if isinstance(names, (list, tuple)) and len(names) == count and _are_keys(names):
            return list(names)
    return list(range(count))


def _are_keys(names: Sequence[Any]) -> bool:
    return all(isinstance(name, (str, int)) for name in names)
