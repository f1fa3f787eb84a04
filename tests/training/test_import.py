"""What training needs of a model survives its way through a file."""

from __future__ import annotations

import afterglow as ag
from afterglow import nn
from afterglow.graph import Op
from afterglow.ops.normalization import BatchNorm
from afterglow.ops.random import Dropout
from tests.exporters.onnx.running import export


def test_dropouts_and_momentum_come_back_from_an_exported_model() -> None:
    net = nn.Sequential(nn.Dropout(0.25), nn.BatchNorm(3, 0.25, 0.3), nn.Dropout(0.0))
    imported = ag.import_model(export(net.module({"x": (2, 3)})))

    def of(module: ag.Module) -> list[Op]:
        kept = (Dropout, BatchNorm)
        return [node.op for node in module.main.nodes if isinstance(node.op, kept)]

    assert of(imported) == [Dropout(0.25), BatchNorm(0.25, 1, 0.3), Dropout(0.0)]
