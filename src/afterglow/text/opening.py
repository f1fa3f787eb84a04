"""Opening a language model, whatever it is given as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from afterglow.driver.load import load
from afterglow.runtime import CompiledModel
from afterglow.runtime.load import is_saved_model
from afterglow.runtime.text_files import TOKENIZER, folder_metadata, head_size
from afterglow.runtime.text_metadata import TEXT, TextMetadata
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.regular_file import open_regular
from afterglow.text.decoder import CachedDecoder, Decoder
from afterglow.text.past import PastDecoder
from afterglow.text.past_form import no_language_model
from afterglow.text.sampling import is_count
from afterglow.text.speculation import Drafter, ModelDrafter, NgramDrafter
from afterglow.text.tokenizer.loading import load_tokenizer
from afterglow.text.tokenizer.tokenizer_json import load_tokenizer_file
from afterglow.text.tokens import Tokenizer

MOST_BY_DEFAULT = 2048
"""The context of models that were trained for more, or do not tell, unless one is chosen."""


@dataclass(frozen=True)
class Opening:
    """How a model is opened: its context, sequences and threads, and how it is compiled.

    A cache type of None is that of a model that is compiled already, and "float32" of others.
    """

    context: int | None = None
    sequences: int | None = None
    threads: int | None = None
    compile_options: Mapping[str, Any] = field(default_factory=dict)
    cache_type: str | None = None

    def __post_init__(self) -> None:
        for name in ("context", "sequences"):
            given = getattr(self, name)
            if given is not None and not (is_count(given) and given > 0):
                raise UsageError(f"{name} must be a whole number, 1 or more, got {given!r}")

    @property
    def dims(self) -> dict[str, Any]:
        """The dimensions of a program with caches that are chosen."""
        chosen = {"context": self.context, "sequences": self.sequences}
        return {name: extent for name, extent in chosen.items() if extent is not None}


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
    given = given_tokenizer(tokenizer)
    if isinstance(model, Decoder):
        return TextModel(_checked(model, opening), given)
    compiled = compiled_model(model, opening)
    metadata = text_metadata(compiled, model)
    return TextModel(
        _checked(decoder_of(compiled, opening.sequences), opening),
        given or load_tokenizer(metadata),
        metadata.bos,
        frozenset(metadata.eos),
        metadata.chat_template or None,
    )


def text_metadata(compiled: CompiledModel, model: Any) -> TextMetadata:
    """What a model says about texts: in what is attached to it, or in the files beside it."""
    attached = compiled.attachments.get(TEXT)
    if attached is not None:
        return TextMetadata.from_bytes(attached)
    folder = folder_beside(model)
    return TextMetadata() if folder is None else folder_metadata(folder)


def folder_beside(model: Any) -> Path | None:
    """The folder with the files that go with a model, if it is a file itself."""
    if not isinstance(model, (str, Path)):
        return None
    folder = Path(model).resolve().parent
    above = folder.name == "onnx" and not (folder / TOKENIZER).exists()
    return folder.parent if above else folder


def given_tokenizer(tokenizer: Any) -> Tokenizer | None:
    """The tokenizer that was given, if one was: itself, or its file."""
    if isinstance(tokenizer, (str, Path)):
        return load_tokenizer_file(tokenizer)
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    raise UsageError(
        "a tokenizer must be the path of a tokenizer.json or an object with encode, decode, piece "
        f"and stream, got a {type(tokenizer).__name__}"
    )


def open_decoder(model: Any, opening: Opening) -> Decoder:
    """What runs a model: a path, a compiled model, or a decoder as it is."""
    if isinstance(model, Decoder):
        return _checked(model, opening)
    return _checked(decoder_of(compiled_model(model, opening), opening.sequences), opening)


def _checked(decoder: Decoder, opening: Opening) -> Decoder:
    """A decoder that has room for what is asked for."""
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
    is_saved = isinstance(model, (str, Path)) and is_saved_model(model)
    if opening.cache_type is not None and (is_saved or isinstance(model, CompiledModel)):
        raise UsageError(
            "the model is compiled already, its caches have the type that they have",
            help=f"compile it with cache_type={opening.cache_type!r}",
        )
    if isinstance(model, CompiledModel):
        return model
    if is_saved:
        return load(model, threads=opening.threads)
    options = {"threads": opening.threads, **opening.compile_options}
    if opening.cache_type is not None:
        options["cache_type"] = opening.cache_type
    # here, because importing it takes longer than loading a saved model
    from afterglow.driver.api import compile  # noqa: PLC0415

    if isinstance(model, (str, Path)) and _keeps_caches(Path(model)):
        return compile(model, dims={**opening.dims, **options.pop("dims", {})}, **options)
    # here, because what is in the cache needs no compiler
    from afterglow.text.compiling import compile_past_model  # noqa: PLC0415

    folder = folder_beside(model)
    trained = folder_metadata(folder).context if folder is not None else 0
    context = opening.context or min(trained or MOST_BY_DEFAULT, MOST_BY_DEFAULT)
    head = None if folder is None else head_size(folder)
    return compile_past_model(model, context, head, **options)


def _keeps_caches(path: Path) -> bool:
    """Whether a model is of a front end that builds programs with caches as state."""
    if path.is_dir():
        return True
    try:
        with open_regular(path) as file:
            return bool(file.read(4) == b"GGUF")
    except (OSError, ValueError):
        return False  # the compiler says why it cannot be read


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
