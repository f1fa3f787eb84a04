"""TFLite's control flow: IF and WHILE, whose subgraphs were made bodies of nodes."""

from __future__ import annotations

from afterglow.frontends.common.branches import choice
from afterglow.frontends.common.control import loop
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.dialect import Results
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import INTERNAL, tflite_op
from afterglow.graph import Value


@tflite_op("SCALAR", domain=INTERNAL)
def condition(n: TfliteNode) -> Value:
    """A condition, which may have axes of extent 1, without them."""
    return reshaped(n, n[0], ())


@tflite_op("IF", moves=True)
def branch(n: TfliteNode) -> Results:
    """One of two bodies by a condition."""
    return choice(n)


@tflite_op("WHILE", moves=True)
def repeat(n: TfliteNode) -> Results:
    """A body as long as a condition holds; nothing limits how often."""
    return loop(n)
