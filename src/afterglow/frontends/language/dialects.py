"""The dialects of language models: one table of ops, under the name of each kind of file."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.frontends.definition.dialect import Dialect, Importer

GGUF = Dialect("gguf")
HUGGING_FACE = Dialect("huggingface")


def language_op(*op_types: str) -> Callable[[Importer], Importer]:
    """Register a function for ops of all dialects of language models."""

    def register(function: Importer) -> Importer:
        for dialect in (GGUF, HUGGING_FACE):
            dialect.op(*op_types)(function)
        return function

    return register
