"""Other engines are given ONNX, whatever the format of the model is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from afterglow.cli.peer_model import peer_model
from afterglow.cli.request import Request
from afterglow.driver.options import Options
from afterglow.frontends.content import Content
from afterglow.frontends.onnx.front_end import is_onnx
from tests.cli import models
from tests.cli.command import Command
from tests.frontends.caffe2.nets import Net, op

X = np.ones((2, 3), np.float32)


def caffe2(folder: Path) -> str:
    path = folder / "predict_net.pb"
    path.write_bytes(Net([op("Exp", ["x"])], ["x"], ["y"]).binary())
    return str(path)


def test_an_onnx_model_is_given_as_it_is(tmp_path):
    path = models.linear(tmp_path)
    with peer_model(Request(path, Options()), {"x": X}) as given:
        assert given == path


def test_another_model_is_exported_for_the_time_being(tmp_path):
    with peer_model(Request(caffe2(tmp_path), Options()), {"x": X}) as given:
        assert is_onnx(Content.of(given))
    assert not Path(given).exists()


def test_a_model_of_another_format_is_compared(tmp_path, capsys):
    words = ("--shapes", "x:2x3", "--backend", "interpreter", "--compare", "onnxruntime", "--json")
    finished = Command(capsys)("run", caffe2(tmp_path), *words)
    assert finished.json["agrees"] is True
