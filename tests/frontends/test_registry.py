"""Front ends are found by what they open."""

from __future__ import annotations

from afterglow.frontends.module import ModuleSource
from afterglow.frontends.onnx.source import OnnxSource
from afterglow.frontends.registry import find_source
from afterglow.graph import parse_module
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
