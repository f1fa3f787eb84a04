"""Tokenizers of Hugging Face: a tokenizer.json, through the package `tokenizers`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from afterglow.support.errors import ModelError, UnsupportedError, UsageError

_CUT = "\N{REPLACEMENT CHARACTER}"


def load_tokenizer_file(path: str | Path) -> JsonTokenizer:
    """The tokenizer of a tokenizer.json, or of a folder that has one."""
    path = Path(path)
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise ModelError(f"{path} is not a tokenizer.json: it is no text") from None
    return JsonTokenizer(text, str(path))


class JsonTokenizer:
    """A tokenizer as a tokenizer.json describes it; `name` is what errors call it."""

    def __init__(self, text: str, name: str = "tokenizer.json") -> None:
        try:
            # here, because other tokenizers need no package
            from tokenizers import Tokenizer  # noqa: PLC0415
        except ImportError:
            raise UnsupportedError(
                f"{name} needs the package tokenizers", help="pip install 'afterglow[text]'"
            ) from None
        try:
            self._tokenizer: Any = Tokenizer.from_str(text)
        except Exception as error:  # the package raises nothing more particular
            raise ModelError(f"{name} is not a tokenizer.json: {error}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.vocabulary: int = self._tokenizer.get_vocab_size()

    def encode(self, text: str, *, bos: bool | None = None) -> list[int]:
        """The tokens of a text, with the special ones around it unless `bos` is False."""
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=bos is not False).ids
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without that of special ones."""
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text

    def piece(self, token: int) -> str:
        """A token as the vocabulary spells it; empty if it has none of this number."""
        return self._tokenizer.id_to_token(token) or ""

    def stream(self) -> JsonStream:
        """What turns tokens into text as they come."""
        return JsonStream(self)


class JsonStream:
    """Decodes a few tokens at a time: what a token adds to the text depends on the one before."""

    def __init__(self, tokenizer: JsonTokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        """Those whose text was given last, and those that have given none yet."""
        self._given = 0

    def push(self, token: int) -> str:
        """The text that is certain after one more token."""
        self._tokens.append(token)
        before, text = self._texts()
        if len(text) <= len(before) or text.endswith(_CUT):
            return ""
        self._tokens, self._given = self._tokens[self._given :], len(self._tokens) - self._given
        return text[len(before) :]

    def finish(self) -> str:
        """The text that is left when no more tokens come."""
        before, text = self._texts()
        self._given = len(self._tokens)
        return text[len(before) :]

    def _texts(self) -> tuple[str, str]:
        """The text that was given of the tokens here, and that of all of them."""
        decode = self._tokenizer.decode
        return decode(self._tokens[: self._given]), decode(self._tokens)
