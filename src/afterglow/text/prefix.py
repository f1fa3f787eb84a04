"""Files of prefixes: tokens and the caches that a model has behind them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from afterglow.support.errors import ModelError, UsageError
from afterglow.support.output_path import checked_path, writing
from afterglow.text.decoder import Decoder, check_caches
from afterglow.text.options import checked_tokens
from afterglow.text.scheduler import Prefix

_TOKENS = "tokens"


def save_prefix(prefix: Prefix, path: str | Path) -> None:
    """Write a prefix as a file of NumPy arrays (.npz)."""
    path = checked_path(path, "prefix")
    arrays = {_TOKENS: np.array(prefix.tokens, np.int32), **prefix.caches}
    with writing(path), path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # names are no parameters of its own


def load_prefix(path: str | Path, decoder: Decoder) -> Prefix:
    """Read a prefix that was saved with the same model."""
    path = checked_path(path, "prefix")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError, AttributeError, TypeError):
        raise ModelError(f"{path} is not the file of a prefix, or it is damaged") from None
    tokens = arrays.pop(_TOKENS, None)
    if tokens is None or tokens.ndim != 1:
        raise ModelError(f"{path} is not the file of a prefix: it has no tokens")
    found = checked_tokens(str(path), tokens, decoder.vocabulary)
    if len(found) > decoder.context:
        raise UsageError(
            f"{path} has {len(found)} tokens, the model a context of {decoder.context}"
        )
    check_caches(arrays, decoder, len(found))
    return Prefix(tuple(found), arrays)
