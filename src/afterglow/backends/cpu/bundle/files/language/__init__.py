"""What a bundle of a language model has besides: tokenizer, sampler and loop in C."""

from __future__ import annotations

from afterglow.backends.bundling.fields import Field, fields_of
from afterglow.backends.cpu.bundle.code import BundleCode, EntryCode
from afterglow.backends.cpu.bundle.files.extents import members_of
from afterglow.backends.cpu.bundle.files.language import bpe, sentencepiece
from afterglow.backends.cpu.bundle.files.language.interface import HEADER
from afterglow.backends.cpu.bundle.files.language.patterns import pattern_tables
from afterglow.backends.cpu.bundle.files.language.program import PROGRAM
from afterglow.backends.cpu.bundle.files.language.source import SOURCE
from afterglow.backends.cpu.bundle.files.language.vocabulary import (
    KINDS,
    MAGIC,
    VERSION,
    vocabulary_table,
)
from afterglow.backends.cpu.bundle.files.systems import System, system_of
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.runtime.text_metadata import TextMetadata
from afterglow.runtime.word_patterns import TAKES_WHOLE_WORDS, WORD_PATTERNS
from afterglow.types.extent import largest

_INPUTS = ("tokens", "positions", "sequences", "wanted")
_BYTES_PER_TOKEN = 16
"""Bytes of a prompt that can be encoded, for each token of the context."""


def language_files(code: BundleCode) -> dict[str, bytes]:
    """The files by which the bundle of a language model generates text; none for other models."""
    text = _text_of(code)
    if text is None:
        return {}
    values = _values(code, code.entries[0], text)
    sources = {
        f"{code.name}_text.h": HEADER.substitute(values),
        f"{code.name}_text.c": SOURCE.substitute(values),
        "generate.c": PROGRAM.substitute(values),
    }
    written = {name: content.encode() for name, content in sources.items()}
    return {**written, f"{code.name}.vocabulary": vocabulary_table(text)}


def generates(code: BundleCode) -> bool:
    """Whether a bundle has these files."""
    return _text_of(code) is not None


def _text_of(code: BundleCode) -> TextMetadata | None:
    """The tokenizer of a bundle that has the form of a language model, for a known kind."""
    text, entry = code.text, code.entries[0]
    if text is None or len(code.entries) != 1 or system_of(code.target) is not System.HOSTED:
        return None
    known = text.tokenizer.get("kind") in KINDS
    names = entry.input_names == _INPUTS and entry.output_names == ("logits",)
    dims = {dim.name for dim in members_of(entry)}
    return text if known and names and "tokens" in dims and dims <= {"tokens", "wanted"} else None


def _values(code: BundleCode, entry: EntryCode, text: TextMetadata) -> dict[str, object]:
    """What the gaps in the C code are filled with."""
    fields = fields_of(entry)
    by_name = {field.name: field for field in fields}
    caches = [field for field in fields if field.role == "state"]
    context = caches[0].type.shape[2]
    vocabulary, chunk = by_name["logits"].type.shape[1], largest(by_name["tokens"].type.shape[0])
    cache_bytes = sum(map(_padded, caches))
    most_bytes = _BYTES_PER_TOKEN * context
    work = 17 * vocabulary + 4 * (context + 2 * chunk) + 19 * (most_bytes + 2) + 4096
    has_wanted = any(dim.name == "wanted" for dim in members_of(entry))
    return {
        "name": code.name,
        "prefix": entry.prefix,
        "upper": entry.prefix.upper(),
        "context": context,
        "vocabulary": vocabulary,
        "chunk": chunk,
        "most_bytes": most_bytes,
        "cache_bytes": cache_bytes,
        "bytes": cache_bytes + work,
        "piece_bytes": 4 * max(map(len, text.tokenizer["tokens"])),
        "magic": f"{MAGIC:#x}u",
        "version": VERSION,
        "weights": "" if code.embedded else _WEIGHTS.format(name=code.name),
        "given": "" if code.embedded else ", t->weights",
        "extents": "    extents.wanted = 1;\n" if has_wanted else "",
        "caches": _cache_pointers(caches),
        **_encoder(text),
        "load": "" if code.embedded else _LOAD.format(name=code.name, upper=code.name.upper()),
    }


def _encoder(text: TextMetadata) -> dict[str, object]:
    """The code that is of one kind of tokenizers."""
    if text.tokenizer["kind"] == "sentencepiece":
        return {"rate": sentencepiece.RATE, "plain": sentencepiece.PLAIN}
    name = str(text.tokenizer.get("pre", "default"))
    tables = pattern_tables(WORD_PATTERNS.get(name, WORD_PATTERNS["default"]))
    whole_words = int(name in TAKES_WHOLE_WORDS)
    return {"rate": bpe.RATE, "plain": bpe.PLAIN.substitute(tables, whole_words=whole_words)}


_WEIGHTS = "    const void *weights;     /* the contents of {name}.weights: see {name}.h */\n"
_LOAD = """\
    text.weights = read_beside(argv[0], "{name}.weights", &size);
    if ({name}_check_weights(text.weights, size) != {upper}_OK) fail("the weights are damaged", "");
"""


def _padded(field: Field) -> int:
    return -(-field.type.nbytes // ALIGNMENT) * ALIGNMENT


def _cache_pointers(caches: list[Field]) -> str:
    """Code that lays the caches one after the other."""
    lines, place = [], 0
    for field in caches:
        lines.append(f"    io.{field.member} = (void *)(caches + {place});\n")
        place += _padded(field)
    return "".join(lines)
