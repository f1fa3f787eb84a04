"""ONNX's ops on texts, where its own suite does not look."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import afterglow
from afterglow.support.errors import CompileError, ModelError
from tests.frontends.models import info, model, node
from tests.frontends.onnx.one_node import Form, check, each_form, form, giving

WORDS = np.array(["Monday", "tuesday", "MONDAY", "Friday"], object)
NUMBERS = np.array([[2, 3, 5, 2, 5, 2], [3, 2, 3, 2, 2, 2]], np.int32)
GRAMS = {
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 1,
    "ngram_counts": [0, 3],
    "ngram_indexes": [4, 0, 2, 1, 3],
    "weights": [1.0, 2.0, 3.0, 4.0, 5.0],
}
POOL = [2, 3, 5, 5, 2, 3, 2]


@each_form(
    *(
        form("TfIdfVectorizer", 9, NUMBERS, mode=mode, pool_int64s=POOL, **GRAMS)
        for mode in ("TF", "IDF", "TFIDF")
    ),
    form("TfIdfVectorizer", 9, NUMBERS[0], mode="TFIDF", pool_int64s=POOL, **GRAMS),
    form(
        "TfIdfVectorizer",
        9,
        NUMBERS.astype(str).astype(object),
        mode="TFIDF",
        pool_strings=[*map(str, POOL)],
        **GRAMS,
    ),
)
def test_they_run_as_in_onnx_runtime(form: Form) -> None:
    check(form)


def words(*expected: str, **attributes: object) -> list[Form]:
    """What is left of WORDS: ONNX Runtime needs a locale, and the reference ignores cases."""
    return giving(
        lambda x: np.array(expected, object), form("StringNormalizer", 10, WORDS, **attributes)
    )


@each_form(
    words("TUESDAY", "FRIDAY", stopwords=["monday"], case_change_action="UPPER"),
    words("tuesday", "friday", stopwords=["Monday"], case_change_action="LOWER"),
    words("Monday", "tuesday", "Friday", stopwords=["MONDAY"], is_case_sensitive=1),
    words("MONDAY", "TUESDAY", "MONDAY", "FRIDAY", case_change_action="UPPER"),
    words("", stopwords=["monday", "TUESDAY", "friday"], case_change_action="UPPER"),
    words(*WORDS),
)
def test_words_are_dropped_and_written_in_one_case(form: Form) -> None:
    check(form)


SPLIT = giving(
    lambda x: (
        np.array([[["a", "b"], ["", ""]], [["c", ""], ["d", "e f"]]], object),
        np.array([[2, 0], [1, 2]]),
    ),
    form(
        "StringSplit",
        20,
        np.array([["a b", " "], ["c", "d  e f"]], object),
        outputs=2,
        maxsplit=1,
    ),
)


@each_form(SPLIT)
def test_texts_are_split_at_white_space(form: Form) -> None:
    check(form)


TEXTS = np.array(["Hello  World", "I love computer science !", "", "a-b c"], object)


def tokenizer(shape: tuple[int, ...], attributes: dict[str, Any]) -> onnx.ModelProto:
    one = node("Tokenizer", ["x"], ["y"], domain="com.microsoft", pad_value="#", **attributes)
    inputs = (info("x", shape, onnx.TensorProto.STRING),)
    outputs = (info("y", None, onnx.TensorProto.STRING),)
    return model([one], inputs=inputs, outputs=outputs, domains={"com.microsoft": 1})


@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=str)
@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize(
    "attributes",
    [
        {"separators": [" "], "mincharnum": 1},
        {"separators": [" ", "-"], "mincharnum": 2},
        {"separators": ["[ -]+"], "mincharnum": 1},
        {"separators": [""], "mincharnum": 1},
        {"tokenexp": "[a-zA-Z]+", "mincharnum": 1},
        {"tokenexp": "(l)(l)", "mincharnum": 1},
        {"tokenexp": "[a-z]+", "mincharnum": 3},
        {"tokenexp": "z", "mincharnum": 1},
    ],
    ids=str,
)
def test_texts_are_cut_into_words(
    shape: tuple[int, ...], mark: int, attributes: dict[str, Any]
) -> None:
    source = tokenizer(shape, {"mark": mark, **attributes})
    x = TEXTS.reshape(shape)
    session = onnxruntime.InferenceSession(source.SerializeToString())
    (want,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(afterglow.compile(source)(x), want)


def test_separators_may_have_groups() -> None:
    source = tokenizer((4,), {"mark": 0, "separators": ["( |-)"], "mincharnum": 1})
    got = afterglow.compile(source)(TEXTS)
    assert got[3].tolist() == ["a", "b", "c", "#", "#"]


def test_a_pattern_must_be_one() -> None:
    (bad,) = form("RegexFullMatch", 20, WORDS, pattern="(")
    with pytest.raises((ModelError, CompileError), match="pattern '\\(' is not a regular expr"):
        afterglow.compile(bad.model()[0])


def test_words_stand_in_one_row() -> None:
    (bad,) = form("StringNormalizer", 10, WORDS.reshape(2, 2))
    with pytest.raises(ModelError, match=r"x must be one row of words, got str\[2, 2\]"):
        afterglow.compile(bad.model()[0])


def test_n_grams_must_fit_the_operand() -> None:
    (bad,) = form("TfIdfVectorizer", 9, WORDS, mode="TF", pool_int64s=POOL, **GRAMS)
    with pytest.raises(ModelError, match="it has no n-grams of str"):
        afterglow.compile(bad.model()[0])
