"""A small network with many kinds of nodes, and errors to plant in it and in the compiler."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from afterglow.backends.pointwise import table
from afterglow.driver import pipelines
from afterglow.graph import Builder, Node, Value
from afterglow.ops.elementwise import Neg
from afterglow.ops.functions import Exp, Sqrt, Tanh
from afterglow.passes.rewrite import RewritePass, Rule, rewrite
from tests.frontends.models import info, model, node

RANDOM = np.random.default_rng(0)
WEIGHTS = {
    "w1": RANDOM.standard_normal((8, 8)).astype(np.float32),
    "w2": RANDOM.standard_normal((8, 8)).astype(np.float32),
    "one": np.float32(1),
}


def network(**weights: np.ndarray) -> onnx.ModelProto:
    """Ten nodes in a row and beside each other."""
    return model(
        [
            node("MatMul", ["x", "w1"], ["product"], name="first"),
            node("Tanh", ["product"], ["bent"], name="bend"),
            node("Abs", ["bent"], ["size"], name="measure"),
            node("Add", ["size", "one"], ["above"], name="lift"),
            node("Sqrt", ["above"], ["root"], name="root"),
            node("Exp", ["root"], ["grown"], name="grow"),
            node("Neg", ["grown"], ["turned"], name="turn"),
            node("MatMul", ["turned", "w2"], ["mixed"], name="second"),
            node("Add", ["mixed", "product"], ["sum"], name="join"),
            node("Softmax", ["sum"], ["y"], name="last"),
        ],
        inputs=[info("x", (4, 8))],
        outputs=[info("y", (4, 8))],
        constants={**WEIGHTS, **weights},
    )


@rewrite(Sqrt)
def wrong_root(n: Node, b: Builder) -> Value | None:
    """sqrt(x)  ->  tanh(x): which is wrong."""
    return b.emit(Tanh(), n.operands[0])


@rewrite(Neg)
def wrong_if_fused(n: Node, b: Builder) -> Value | None:
    """-exp(x)  ->  exp(-x), which is wrong, if exp(x) is not returned."""
    match n:
        case Node(Neg(), [Value(Node(Exp(), [x])) as grown]) if not _is_returned(n, grown):
            return b.emit(Exp(), b.emit(Neg(), x))
    return None


def _is_returned(n: Node, value: Value) -> bool:
    return n.function is not None and any(value is x for x in n.function.escaping())


def plant_pass(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
    """Let a pass of the pipeline apply a wrong rule."""
    wrong = RewritePass("simplify-clips", (rule,))
    monkeypatch.setattr(pipelines, "SIMPLIFY_CLIPS", wrong)


def plant_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the code of exponentials compute something else."""
    right = table._EXPRESSIONS[Exp]
    wrong = {**table._EXPRESSIONS, Exp: lambda op, x: right(op, right(op, x))}
    monkeypatch.setattr(table, "_EXPRESSIONS", wrong)
