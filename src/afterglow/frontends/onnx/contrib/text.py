"""The com.microsoft domain: texts."""

from __future__ import annotations

import re

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.contrib.fused import MICROSOFT
from afterglow.frontends.onnx.importers.text import text_table
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.support.errors import ModelError

_BEGIN, _END = "\x02", "\x03"


@onnx_op("Tokenizer", domain=MICROSOFT)
def tokenizer(n: NodeContext) -> Value:
    """The words of each string along a new last axis, by a regular expression or separators.

    The result has as many as the longest text; `mark` puts one before the first and one after the
    last word, unless no text has any.
    """
    texts = n.known(0)
    pattern, is_separator = _pattern(n)
    shortest = max(n.integer("mincharnum"), 1)
    rows = []
    for text in map(str, texts.reshape(-1)):
        found = _between(pattern, text) if is_separator else [m[0] for m in pattern.finditer(text)]
        rows.append([word for word in found if len(word) >= shortest])
    if n.integer("mark") and any(rows):
        rows = [[_BEGIN, *words, _END] for words in rows]
    return n.constant(text_table(rows, texts.shape, n.text("pad_value")))


def _between(pattern: re.Pattern[str], text: str) -> list[str]:
    """What lies between matches; unlike `split`, without what groups of the pattern match."""
    matches = [match.span() for match in pattern.finditer(text)]
    starts, ends = (0, *(end for _, end in matches)), (*(start for start, _ in matches), len(text))
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _pattern(n: NodeContext) -> tuple[re.Pattern[str], bool]:
    """The expression, and whether it matches what stands between words."""
    separators = n.texts("separators", ())
    try:
        if n.has("tokenexp"):
            return re.compile(n.text("tokenexp")), False
        if separators == ("",):
            return re.compile(".", re.DOTALL), False  # each character is a word
        between = "|".join(f"(?:{separator})" for separator in separators)
        return re.compile(between), True
    except re.error as error:
        raise ModelError(f"it has an expression that cannot be read: {error}") from None
