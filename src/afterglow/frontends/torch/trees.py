"""Names for the leaves of nested arguments and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def leaf_names(spec: Any, name: str) -> Iterator[str]:
    """What the leaves of a tree are called: `logits`, `past.0.key`; `name` if it is one leaf.

    A tree of lists alone has names that begin with `name`: `output.0`.
    """
    children = spec.children()
    if spec.is_leaf():
        yield name
        return
    for key, child in zip(_keys(spec, len(children)), children, strict=True):
        named = isinstance(key, str)
        if name in ("", "output") and named:
            yield from leaf_names(child, str(key))
        else:
            yield from leaf_names(child, f"{name}.{key}" if name else str(key))


def _keys(spec: Any, count: int) -> list[Any]:
    """What the children of a tree are called: keys, names of fields, or numbers."""
    context = spec.context
    fields = getattr(context, "_fields", None)  # of a named tuple
    for names in (context, fields, context[0] if isinstance(context, list) and context else None):
        if isinstance(names, (list, tuple)) and len(names) == count and _are_plain(names):
            return list(names)
    return list(range(count))


def _are_plain(names: Any) -> bool:
    return all(isinstance(name, (str, int)) for name in names)
