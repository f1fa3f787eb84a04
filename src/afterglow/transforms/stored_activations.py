"""Choose what products with stored matrices multiply: rows of f32, or rounded to 8 bits."""

from __future__ import annotations

from dataclasses import replace

from afterglow.graph import Builder, Node, Value
from afterglow.ops.stored import Activations, StoredMatMul
from afterglow.passes import RewritePass, rewrite


def set_activations(name: str) -> RewritePass:
    """The pass after which all products with stored matrices take rows of the kind of a name."""
    activations = Activations(name)

    @rewrite(StoredMatMul)
    def set_one(node: Node, b: Builder) -> Value | None:
        """stored_matmul {activations = a}  ->  stored_matmul {activations = b}."""
        match node:
            case Node(StoredMatMul(activations=given) as op, operands) if given is not activations:
                return b.emit(replace(op, activations=activations), *operands)
        return None

    return RewritePass("set-activations", (set_one,))
