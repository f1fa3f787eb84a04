"""Common-subexpression elimination, of nodes and of constants."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from afterglow.graph import (
    Constant,
    Function,
    Module,
    Node,
    Op,
    Output,
    Update,
    Value,
    joined_origins,
)
from afterglow.passes import Pass
from afterglow.types import Array
from afterglow.types.later import LaterArray
from afterglow.types.mapped import release_pages

SAMPLES = 64
"""The number of elements of a constant that are hashed; equal hashes are compared in full."""
BLOCK_BYTES = 1 << 22
"""Constants are compared in blocks of about this size, until two differ."""


class MergeEqualNodes(Pass):
    """Of pure nodes that apply equal ops to the same operands, keep the first.

    Nodes with different predicates are different: they may be skipped at different times.
    """

    name = "merge-equal-nodes"

    def run(self, function: Function) -> bool:
        """See the class."""
        before = len(function)
        first: dict[tuple[Op, tuple[Value | None, ...], Value | None], Node] = {}
        for node in function.nodes:
            if not node.op.pure:
                continue
            kept = first.setdefault((node.op, tuple(node.operands), node.predicate), node)
            if kept is not node:
                kept.origins = joined_origins((kept.origins, node.origins))
                for old, new in zip(node.results, kept.results, strict=True):
                    function.replace(old, new)
                function.erase(node)
        return len(function) < before


class MergeEqualConstants(Pass):
    """Of constants of one type and content, keep the first. Works on the module, from main."""

    name = "merge-equal-constants"

    def run(self, function: Function) -> bool:
        """See the class."""
        if function is not function.module.main:
            return False
        kept_of = _duplicates(function.module)
        _replace_constants(function.module, kept_of)
        return bool(kept_of)


def _duplicates(module: Module) -> dict[Constant, Constant]:
    """Each constant that has an equal before it, and that one."""
    seen: dict[Hashable, list[Constant]] = {}
    kept_of: dict[Constant, Constant] = {}
    for constant in module.constants.values():
        alike = seen.setdefault(_fingerprint(constant), [])
        kept = next((other for other in alike if _equal(constant, other)), None)
        if kept is None:
            alike.append(constant)
        else:
            kept_of[constant] = kept
    return kept_of


def _replace_constants(module: Module, kept_of: Mapping[Constant, Constant]) -> None:
    for old, new in kept_of.items():
        for node, index in old.uses:
            if index < 0:
                node.predicate = new
            else:
                node.set_operand(index, new)
        module.erase_constant(old)
    for function in module.functions.values():
        entries: list[Output | Update] = [*function.outputs, *function.updates]
        for entry in entries:
            if isinstance(entry.value, Constant):
                entry.value = kept_of.get(entry.value, entry.value)


def _fingerprint(constant: Constant) -> Hashable:
    """Equal for equal constants, and cheap: a few elements stand for all."""
    if isinstance(constant.content, LaterArray):
        return constant.type, id(constant.content)
    data = constant.data
    places = np.linspace(0, data.size - 1, min(data.size, SAMPLES)).astype(np.int64)
    sample = data.reshape(-1) if data.size <= SAMPLES else data.flat[places]
    content = tuple(sample) if sample.dtype == object else sample.tobytes()
    release_pages(data)
    return constant.type, content


def _equal(a: Constant, b: Constant) -> bool:
    if a.content is b.content:
        return True
    same = _same_content(a.data, b.data)
    release_pages(a.data)
    release_pages(b.data)
    return same


def _same_content(a: Array, b: Array) -> bool:
    """Whether two arrays of one type and shape hold the same bits."""
    if a.dtype == object:
        return bool(np.array_equal(a, b))
    if _place(a) == _place(b):
        return True
    a, b = np.atleast_1d(a.squeeze()), np.atleast_1d(b.squeeze())
    rows = max(1, BLOCK_BYTES * a.shape[0] // max(a.nbytes, 1))
    starts = range(0, a.shape[0], rows)
    return all(a[i : i + rows].tobytes() == b[i : i + rows].tobytes() for i in starts)


def _place(array: Array) -> tuple[Any, ...]:
    return array.__array_interface__["data"][0], array.strides
