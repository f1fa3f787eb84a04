"""Opening a language model, whatever it is given as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afterglow.driver.load import load
from afterglow.runtime import CompiledModel
from afterglow.runtime.load import is_saved_model
from afterglow.support.errors import UsageError
from afterglow.text.decoder import CachedDecoder, Decoder
from afterglow.text.past import PastDecoder
from afterglow.text.past_form import no_language_model
from afterglow.text.sampling import is_count
from afterglow.text.speculation import Drafter, ModelDrafter, NgramDrafter
from afterglow.text.tokens import Tokenizer


@dataclass(frozen=True)
class Opening:
    """How a model is opened: its context, sequences and threads, and how it is compiled."""

    context: int | None = None
    sequences: int | None = None
    threads: int | None = None
    compile_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("context", "sequences"):
            given = getattr(self, name)
            if given is not None and not (is_count(given) and given > 0):
                raise UsageError(f"{name} must be a whole number, 1 or more, got {given!r}")


@dataclass(frozen=True)
class TextModel:
    """A language model as it was opened: what runs it, and how it writes texts."""

    decoder: Decoder
    tokenizer: Tokenizer | None = None
    bos: int | None = None
    stop_tokens: frozenset[int] = frozenset()
    chat_template: str | None = None


def open_text_model(model: Any, opening: Opening, tokenizer: Any = None) -> TextModel:
    """Open a language model with a tokenizer, its own if none is given."""
    decoder = open_decoder(model, opening)
    return TextModel(decoder, given_tokenizer(tokenizer))


def given_tokenizer(tokenizer: Any) -> Tokenizer | None:
    """The tokenizer that was given, if one was."""
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    raise UsageError(
        "a tokenizer must be the path of a tokenizer.json or an object with encode, decode, piece "
        f"and stream, got a {type(tokenizer).__name__}"
    )


def open_decoder(model: Any, opening: Opening) -> Decoder:
    """What runs a model: a path, a compiled model, or a decoder as it is."""
    if isinstance(model, Decoder):
        decoder: Decoder = model
    else:
        decoder = decoder_of(compiled_model(model, opening), opening.sequences)
    _check_size("sequences", "sequence", opening.sequences, decoder.sequences)
    _check_size("context", "token", opening.context, decoder.context)
    return decoder


def decoder_of(model: CompiledModel, sequences: int | None) -> Decoder:
    """What runs a compiled model."""
    if not model.versions():
        raise no_language_model(model.inputs, model.outputs)
    if CachedDecoder.takes(model):
        return CachedDecoder(model)
    return PastDecoder(model, sequences or 1)


def compiled_model(model: Any, opening: Opening) -> CompiledModel:
    """A model, compiled or loaded if it is not yet."""
    if isinstance(model, CompiledModel):
        return model
    if isinstance(model, (str, Path)) and is_saved_model(model):
        return load(model, threads=opening.threads)
    # here, because saved models need no compiler
    from afterglow.text.compiling import compile_text_model  # noqa: PLC0415

    return compile_text_model(
        model,
        opening.context,
        opening.sequences,
        threads=opening.threads,
        **opening.compile_options,
    )


def _check_size(name: str, noun: str, wanted: int | None, there: int) -> None:
    """Refuse to take a model for more than it was compiled for."""
    if wanted is not None and wanted > there:
        raise UsageError(
            f"{name}={wanted}, but the model was compiled for {there} {noun}{'s'[: there > 1]}",
            help=f"compile it with dims={{{name!r}: {wanted}}}",
        )


def open_drafter(draft: Any, decoder: Decoder, opening: Opening) -> Drafter:
    """What proposes tokens: "ngram", or a smaller model."""
    if draft == "ngram":
        return NgramDrafter()
    opening = Opening(None, decoder.sequences, opening.threads, opening.compile_options)
    return ModelDrafter(open_decoder(draft, opening), decoder.vocabulary, decoder.sequences)
