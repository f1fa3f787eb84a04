"""Front ends are found by what they open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from afterglow.frontends.content import Content
from afterglow.frontends.definition.dialect import Dialect
from afterglow.frontends.module import ModuleSource
from afterglow.frontends.onnx.source import OnnxSource
from afterglow.frontends.registry import find_dialect, find_source, readable
from afterglow.graph import parse_module
from afterglow.support import plugins
from afterglow.support.errors import UnsupportedError
from tests.frontends.models import model, node


def test_each_kind_of_model_has_its_front_end() -> None:
    proto = model([node("Relu", ["x"], ["y"])])
    assert isinstance(find_source(proto), OnnxSource)
    assert isinstance(find_source(proto.SerializeToString()), OnnxSource)
    module = parse_module("func @main(%x: f32[2]) {\n  return %x\n}\n")
    assert isinstance(find_source(module), ModuleSource)


def test_what_no_front_end_knows_is_opened_by_none() -> None:
    assert find_source(3) is None
    assert find_source([1.0]) is None


def test_a_model_is_known_by_its_content_and_not_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(model([node("Relu", ["x"], ["y"])]).SerializeToString())
    source = find_source(path)
    assert isinstance(source, OnnxSource)
    assert source.path == path


class Toy:
    name = "toy"
    reads = "Toy"
    dialect = Dialect("toy")

    def opens(self, source: Any) -> Any:
        is_toy = isinstance(source, Content) and source.head.startswith(b"toy")
        return ModuleSource(parse_module(IDENTITY)) if is_toy else None


IDENTITY = "func @main(%x: f32[2]) {\n  return %x\n}\n"


def test_a_plug_in_opens_what_no_other_front_end_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_ADDED", {})
    plugins.add_plugin(plugins.FRONT_ENDS, Toy())
    assert isinstance(find_source(b"toy model"), ModuleSource)
    assert find_dialect("toy") is Toy.dialect
    assert readable().split(", ")[-1] == "Toy"


def test_a_dialect_that_no_front_end_has_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no front end has a dialect 'toy'"):
        find_dialect("toy")
