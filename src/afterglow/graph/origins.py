"""Origins: the names of the model's own nodes that a node or an instruction computes.

A node that replaces several, as a fused or merged one does, has the origins of all of them. The
nodes that an op is lowered to all have the origins of that op.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeAlias

from afterglow.support.lexer import TokenStream

Origins: TypeAlias = tuple[str, ...]


def joined_origins(parts: Iterable[Origins]) -> Origins:
    """All origins of several nodes, each once, in their order."""
    return tuple(dict.fromkeys(origin for part in parts for origin in part))


def origins_text(origins: Origins) -> str:
    """How the text forms spell origins: ` from "Conv_1", "Relu_2"`; nothing if there are none."""
    return f" from {', '.join(map(json.dumps, origins))}" if origins else ""


def parse_origins(tokens: TokenStream) -> Origins:
    """Read what `origins_text` wrote."""
    if not tokens.accept("from"):
        return ()
    found = [json.loads(tokens.take("string", "the name of a node"))]
    while tokens.accept(","):
        found.append(json.loads(tokens.take("string", "the name of a node")))
    return tuple(found)
