"""What a language model says about texts: its tokenizer, special tokens, context, chat template.

A source that knows it attaches it to the compiled model, under `TEXT`, as a JSON document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

TEXT = "text"
"""The name of the attachment."""


@dataclass(frozen=True)
class TextMetadata:
    """A model's tokenizer and what goes with it.

    `tokenizer` has a `kind` and what a tokenizer of this kind is made of; it is empty if the model
    came with none. Texts of tokens that are no UTF-8 hold their bytes as lone surrogates.
    """

    tokenizer: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    architecture: str = ""
    context: int = 0
    """The most positions that the model was trained for."""
    vocabulary: int = 0
    bos: int | None = None
    """The token that texts begin with."""
    eos: tuple[int, ...] = ()
    """The tokens that end a text."""
    unknown: int | None = None
    add_bos: bool = False
    add_eos: bool = False
    chat_template: str = ""

    def to_bytes(self) -> bytes:
        """The JSON document."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(data: bytes | memoryview) -> TextMetadata:
        """What was written so."""
        try:
            read = json.loads(bytes(data))
            return TextMetadata(**{**read, "eos": tuple(read["eos"])})
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f"the text metadata of the model are damaged: {error}",
                help="compile the model again with this version",
            ) from None
