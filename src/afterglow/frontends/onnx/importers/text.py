"""ONNX's ops on texts. Where the texts decide the shape of the result, they must be known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Less, Mul
from afterglow.ops.strings import ChangeCase, LetterCase, RegexFullMatch, StringConcat
from afterglow.ops.vocabulary import NgramCount
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types.dtype import f32, i64, string

_CASES = {"UPPER": LetterCase.UPPER, "LOWER": LetterCase.LOWER, "NONE": None}


def text_array(texts: object) -> Array:
    """Texts as an array of any shape, however long they are."""
    return np.array(texts, np.object_)


def text_table(rows: Sequence[Sequence[str]], shape: tuple[int, ...], filler: str) -> Array:
    """Rows of texts, each filled up to the longest; `shape` is that of the rows."""
    longest = max(map(len, rows), default=0)
    filled = [[*row, *[filler] * (longest - len(row))] for row in rows]
    return text_array(filled).reshape(*shape, longest)


@onnx_op("StringConcat")
def string_concat(n: NodeContext) -> Value:
    """Two operands, broadcast."""
    return n.emit(StringConcat(), n[0], n[1])


@onnx_op("RegexFullMatch")
def regex_full_match(n: NodeContext) -> Value:
    """The standard's syntax is RE2's, which Python's nearly contains."""
    return n.emit(RegexFullMatch(n.text("pattern")), n[0])


@onnx_op("StringNormalizer")
def string_normalizer(n: NodeContext) -> Value:
    """Drop some words, and write the others in one case; if none is left, an empty text is."""
    x = n[0]
    if x.type.dtype is not string:
        raise ModelError(f"x must hold strings, it is {x.type}")
    if x.type.rank not in (1, 2) or x.type.shape[:-1] not in ((), (1,)):
        raise ModelError(f"x must be one row of words, got {x.type}")
    stopwords = n.texts("stopwords", ())
    if stopwords:
        kept = _without(n.known(0), stopwords, is_exact=bool(n.integer("is_case_sensitive", 0)))
        x = n.constant(kept)
    if not x.type.size:
        return n.constant(np.full((*x.type.shape[:-1], 1), "", object))
    case = n.choice("case_change_action", _CASES, "NONE")
    return x if case is None else n.emit(ChangeCase(case), x)


def _without(words: Array, dropped: tuple[str, ...], *, is_exact: bool) -> Array:
    if is_exact:
        keeps = [word not in dropped for word in words.reshape(-1)]
    else:
        lower = {word.lower() for word in dropped}
        keeps = [word.lower() not in lower for word in words.reshape(-1)]
    return words[..., np.array(keeps, np.bool_)]


@onnx_op("StringSplit")
def string_split(n: NodeContext) -> tuple[Value, Value]:
    """The pieces of each text along a new last axis, filled up with empty ones, and their number.

    Without a delimiter, texts are split at any white space.
    """
    texts = n.known(0)
    delimiter, most = n.text("delimiter", "") or None, n.integer("maxsplit", -1)
    pieces = [str(text).split(delimiter, most) for text in texts.reshape(-1)]
    counts = np.array([len(parts) for parts in pieces], np.int64)
    return n.constant(text_table(pieces, texts.shape, "")), n.constant(counts.reshape(texts.shape))


@onnx_op("TfIdfVectorizer")
def tf_idf_vectorizer(n: NodeContext) -> Value:
    """Counts of n-grams, or whether there are any, weighted."""
    x, mode, places = n[0], n.text("mode"), n.integers("ngram_indexes")
    if x.type.dtype is not string:
        x = as_dtype(n, x, i64)
    words = n.attribute("pool_strings") if x.type.dtype is string else n.attribute("pool_int64s")
    if words is None or not places:
        raise ModelError(f"it has no n-grams of {x.type.dtype}")
    if min(places) < 0:
        raise ModelError(f"ngram_indexes must not be negative, got {min(places)}")
    size = max(places) + 1
    op = NgramCount(
        n.integers("ngram_counts"),
        n.integer("min_gram_length"),
        n.integer("max_gram_length"),
        n.integer("max_skip_count"),
        size,
    )
    pool = n.constant(np.array(words, x.type.dtype.numpy))
    row = x if x.type.rank else reshaped(n, x, (1,))
    counts = n.emit(op, row, pool, n.constant(np.array(places, np.int64)))
    if mode == "IDF":
        counts = as_dtype(n, n.emit(Less(), n.constant(np.zeros((), np.float32)), counts), f32)
    weights = n.numbers("weights", ())
    if mode == "TF" or not weights:
        return counts
    if len(weights) != len(places):
        raise ModelError(f"it has {len(weights)} weights for {len(places)} ngram_indexes")
    weight_of = np.ones(size, np.float32)
    weight_of[list(places)] = weights
    return n.emit(Mul(), counts, n.constant(weight_of))
