from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import afterglow
from tests.cli import models


@pytest.fixture
def hostile(tmp_path):
    name = '<script>alert("x")</script>&'
    node = models.helper.make_node("Relu", [name], ["y"])
    declared = [(name, models.FLOAT, [2])], [("y", models.FLOAT, [2])]
    return models.save(tmp_path / "hostile.onnx", [node], *declared)


def shown(model) -> dict[str, str]:
    rows = ET.fromstring(model._repr_html_()).iter("tr")
    return {row[0].text: row[1].text for row in rows}


def test_a_notebook_shows_ports_and_memory(hostile):
    model = afterglow.compile(hostile)
    rows = shown(model)
    assert rows["output"] == "y: f32[2]"
    assert rows["total"] == f"{model.memory.total_bytes:,} B"
    assert "backend cpu, target host" in model._repr_html_()


def test_names_are_escaped(hostile):
    model = afterglow.compile(hostile)
    assert "<script" not in model._repr_html_()
    assert shown(model)["input"] == '<script>alert("x")</script>&: f32[2]'


def test_the_same_for_a_loaded_model(hostile, tmp_path):
    afterglow.compile(hostile).save(tmp_path / "m.agc")
    assert shown(afterglow.load(tmp_path / "m.agc"))["output"] == "y: f32[2]"


def test_a_model_of_which_nothing_is_compiled_yet(tmp_path):
    model = afterglow.compile(models.batched(tmp_path))
    assert "nothing compiled yet" in model._repr_html_()
    for batch in (2, 3):
        model(*(np.zeros((batch, 3), np.float32) for _ in model.inputs))
    assert "2 versions" in model._repr_html_() or "total" in shown(model)


def test_a_model_whose_first_part_runs_on_the_host(tmp_path):
    node = models.helper.make_node("NonZero", ["x"], ["y"])
    declared = [("x", models.FLOAT, [4])], [("y", models.INT64, [1, "n"])]
    model = afterglow.compile(models.save(tmp_path / "where.onnx", [node], *declared))
    model(np.ones(4, np.float32))
    assert "CompiledModel" in model._repr_html_()
    assert repr(model).startswith("<CompiledModel")
