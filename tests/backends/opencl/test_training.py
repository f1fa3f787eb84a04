"""Training on the first OpenCL device: the same numbers as on the CPU, with state on the device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow as ag
from afterglow import nn

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("opencl_device")]


def trainer(backend: str) -> ag.Trainer:
    norm = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm(2), nn.ReLU())
    network = nn.Sequential(norm, nn.Dropout(0.3), nn.Flatten(), nn.Linear(32, 3))
    module = network.module({"x": (None, 1, 6, 6)})
    return ag.Trainer(module, optimizer=ag.optim.SGD(lr=0.05, momentum=0.9), backend=backend)


def test_a_convolutional_network_learns_what_it_learns_on_the_cpu(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((8, 1, 6, 6)).astype(np.float32)
    data = x, np.arange(8) % 3
    here, there, resumed = trainer("cpu"), trainer("opencl"), trainer("opencl")
    here.fit(data, 3, batch=4, progress=False)
    there.fit(data, 2, batch=4, progress=False, checkpoint=tmp_path)
    resumed.fit(data, 3, batch=4, progress=False, checkpoint=tmp_path)
    for name, array in here.parameters.items():
        assert np.allclose(resumed.parameters[name], array, atol=1e-4), name
    assert np.allclose(resumed.predict(x), here.predict(x), atol=1e-4)
    assert np.isclose(resumed.evaluate(data)["loss"], here.evaluate(data)["loss"], atol=1e-4)
