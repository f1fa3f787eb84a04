"""Training steps of transformers: built here, and as exporters write them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import afterglow as ag
from afterglow import nn
from afterglow.optim.losses import MSE
from afterglow.training.step import Recipe, training_step


def built() -> ag.Module:
    block = nn.TransformerBlock(8, 2, 16, 0.0, "gelu", norm_first=True, causal=True)
    return block.module({"x": (2, 4, 8)})


@pytest.mark.parametrize("exported", [False, True])
def test_a_block_is_differentiated_by_ops_of_its_own(exported: bool, tmp_path: Path) -> None:
    module = built()
    if exported:
        ag.export_onnx(module, tmp_path / "block.onnx")
        module = ag.import_model(tmp_path / "block.onnx")
    step = training_step(module, Recipe(MSE(), ag.optim.SGD()))
    found = Counter(node.op.mnemonic for node in step.module.main.nodes)
    ops = ("attention", "attention_gradient", "norm_gradient", "gelu_slope")
    assert [found[op] for op in ops] == [1, 1, 2, 1]
    assert not {"softmax", "exp", "erf", "reduce_mean"} & found.keys()
