"""Texts for byte-level BPE: the same tokens from C as from Python."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.files import write_bundle
from afterglow.backends.cpu.bundle.files.language.pairs import SPELLED
from afterglow.runtime.text_metadata import TextMetadata
from afterglow.text.tokenizer.bpe import BpeTokenizer
from tests.backends.cpu.bundle.files.building import bundle_code, compiler
from tests.backends.cpu.bundle.files.test_language import FLAGS
from tests.frontends.gguf.files import gguf_bytes
from tests.frontends.language.models import llama_metadata, llama_weights

MERGES = """t h|h e|i n|Ġ t|Ġt he|in g|th e|Ġ a|Ġ Ġ|ĠĠ ĠĠ|' s|' S|' t|1 2|12 3|Ċ Ċ|č Ċ|Ã ©|æ Ĺ|æĹ ¥
ð Ł|ðŁ ĺ|. .|.. .|Ġ '|! !|Ġ 1|a b|Â ²|Ġ Ã|x y""".replace("\n", "|").split("|")
PLAIN = "a b the thing then is's IT'S don't we'll they'RE 1 12 123 12345 ... !! ? $ + _ [x] {y} ~"
SCRIPTS = (
    "½² ٣ é É ñandú Ünïcode 日本 日 語 한국 😀 👩\u200d💻 Ġthe e\u0301 \u0300 \u200b ¡¢ \U000e0100"
)
SPECIAL = "| <| > <|end|> <|end|><|end|> \x00 \udcff \udcc3 \udced\udca0\udc80 \U0010ffff"
WORDS = [word for words in (PLAIN, SCRIPTS, SPECIAL) for word in words.split(" ")]
SPACES = [*" \n\t\v\f\x85\xa0\u2028\u3000", "  ", "     ", "\n\n", "\r\n", " \n "]
PROGRAM = r"""
#include "tiny_text.h"
#include <stdio.h>
static uint32_t vocabulary[1 << 16];
static char memory[TINY_TEXT_BYTES], arena[16], prompt[1 << 16];
static int32_t tokens[4096];
int main(void) {
    uint32_t sizes[2];
    tiny_text text = {0};
    FILE *file = fopen("tiny.vocabulary", "rb");
    text.vocabulary_bytes = fread(vocabulary, 1, sizeof vocabulary, file);
    text.vocabulary = vocabulary;
    text.memory = memory;
    text.arena = arena;
    if (tiny_text_check(&text) != TINY_OK) return 1;
    while (fread(sizes, 4, 2, stdin) == 2) {
        size_t count = 0, size = fread(prompt, 1, sizes[0], stdin);
        int32_t status = tiny_text_encode(&text, prompt, size, tokens, sizes[1], &count);
        if (status != TINY_OK) printf("-%d", (int)status);
        for (size_t i = 0; i < count; i++) printf("%d ", (int)tokens[i]);
        putchar('\n');
    }
    return 0;
}
"""
PROMPT_ERROR, TOKENIZER_ERROR = [-101], [-104]


def text_of(pre: str) -> TextMetadata:
    """A tokenizer with all bytes, pairs with and without a piece, and special tokens."""
    joined = [pair.replace(" ", "") for pair in MERGES if pair != "Â ²"]
    tokens = [*SPELLED, *joined, "<|end|>", "<|", "then"]
    types = [1] * (len(tokens) - 3) + [3, 4, 1]
    described = {"kind": "bpe", "tokens": tokens, "types": types, "merges": MERGES, "pre": pre}
    return TextMetadata(described, bos=286, eos=(286,), add_bos=pre == "llama-bpe")


@pytest.fixture(scope="module")
def code() -> BundleCode:
    """A model with as many tokens."""
    compiler()
    return bundle_code(gguf_bytes(llama_metadata(), llama_weights()), "tiny")


def built(code: BundleCode, text: TextMetadata, folder: Path) -> Path:
    """The bundle of a model with another tokenizer, and a program that encodes."""
    write_bundle(replace(code, text=text), folder)
    (folder / "encode.c").write_text(PROGRAM)
    line = [*compiler(), *FLAGS, "-o", "encode", "encode.c", "tiny_text.c", "tiny.o", "-lm"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def encoded(folder: Path, texts: list[str], capacity: int = 4096) -> list[list[int]]:
    """The tokens of texts, from C."""
    raw = [text.encode("utf-8", "surrogateescape") for text in texts]
    given = b"".join(struct.pack("<2I", len(text), capacity) + text for text in raw)
    done = subprocess.run(["./encode"], cwd=folder, input=given, capture_output=True, check=True)
    return [[int(word) for word in line.split()] for line in done.stdout.decode().splitlines()]


def random_texts(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    pieces = [*WORDS, *SPACES, *SPACES]
    drawn = (rng.integers(0, len(pieces), rng.integers(1, 24)) for _ in range(count))
    return ["".join(pieces[number] for number in numbers) for numbers in drawn]


@pytest.mark.parametrize("pre", ["default", "gpt-2", "llama-bpe", "qwen2", "smollm"])
def test_tokens_are_those_of_python(pre: str, code: BundleCode, tmp_path: Path) -> None:
    text = text_of(pre)
    texts = ["", *WORDS, *SPACES, " ".join(WORDS), *random_texts(300)]
    expected = list(map(BpeTokenizer(text).encode, texts))
    assert encoded(built(code, text, tmp_path), texts) == expected


def test_what_is_not_encoded_is_said(code: BundleCode, tmp_path: Path) -> None:
    folder = built(code, text_of("gpt-2"), tmp_path / "known")
    assert encoded(folder, ["a" * 9, "abab"], capacity=2) == [PROMPT_ERROR, [283, 283]]
    assert encoded(folder, ["a" * 1025]) == [PROMPT_ERROR]
    unknown = built(code, text_of("another"), tmp_path / "unknown")
    assert encoded(unknown, ["a"]) == [TOKENIZER_ERROR]
