"""Malformed models with the whole message that each gets."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import onnx
import pytest

from afterglow.frontends.onnx import Binding, import_onnx
from afterglow.support.errors import AfterglowError

Source: TypeAlias = "onnx.ModelProto | bytes | str | Path"
Made: TypeAlias = Callable[..., Source]


class Cases(list):
    """Cases of one file: a function each, which makes the model and is named after its fault."""

    def refused(self, kind: type[AfterglowError], text: str) -> Callable[[Made], Made]:
        """The model that the decorated function makes is refused with this text."""

        def note(make: Made) -> Made:
            self.append(pytest.param(make, kind, inspect.cleandoc(text), id=make.__name__))
            return make

        return note


def check(source: Source, kind: type[AfterglowError], text: str, binding: Binding | None = None):
    """Importing is refused with this very text."""
    with pytest.raises(kind) as caught:
        import_onnx(source, binding)
    assert str(caught.value) == text
