"""GGUF models as sources: files and bytes."""

from __future__ import annotations

from afterglow.frontends.content import Content
from afterglow.frontends.gguf.architectures import read_config, read_weights
from afterglow.frontends.gguf.reader import GgufFile, read_file
from afterglow.frontends.gguf.tokenizer import read_text
from afterglow.frontends.language.dialects import GGUF
from afterglow.frontends.language.source import LanguageModel, LanguageSource


def open_file(content: Content) -> LanguageSource:
    """The model of a file, of which nothing but metadata is read by now."""
    with content.located():
        return LanguageSource(content, _model(read_file(content.data)), GGUF)


def _model(file: GgufFile) -> LanguageModel:
    config = read_config(file)
    weights = read_weights(file, config)
    quantizer = file.metadata.text("general.quantized_by", "")
    producer = f"GGUF {file.version}" + (f", quantized by {quantizer}" if quantizer else "")
    return LanguageModel(config, weights, read_text(file.metadata, config), producer)
