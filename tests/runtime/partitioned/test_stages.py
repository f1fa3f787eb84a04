"""The parts of a partitioned model as models of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow as ag
from afterglow import CompiledModel, UsageError
from afterglow.runtime.partitioned.stages import stages_of

DIGITS = Path(__file__).parents[3] / "examples/digits/digits.onnx"
DEVICES = [ag.LogicalDevice("cpu:0", threads=1), ag.LogicalDevice("cpu:1", threads=1)]
PIPELINE = ag.PartitionConfig("throughput")


def run_stages(model: CompiledModel, folder: Path, *arrays: np.ndarray) -> list[np.ndarray]:
    """Run each stage from a file of its own, in order."""
    stages = stages_of(model)
    values = dict(zip(stages.inputs, arrays, strict=True))
    for place, stage in enumerate(stages.parts):
        path = folder / f"{place}.agc"
        path.write_bytes(stage.content)
        results = ag.load(path).run(None, {name: values[name] for name in stage.inputs})
        values.update(zip(stage.outputs, results, strict=True))
    return [values[name] for name in stages.outputs]


@pytest.mark.parametrize("devices", [DEVICES, DEVICES[:1]], ids=["two", "one"])
def test_stages_one_after_the_other_are_the_model(
    tmp_path: Path, devices: list[ag.LogicalDevice]
) -> None:
    model = ag.compile(DIGITS, backend=devices, partition=PIPELINE)
    image = np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)
    (result,) = run_stages(model, tmp_path, image)
    np.testing.assert_array_equal(result, model(image))


def test_a_saved_model_has_the_same_stages(tmp_path: Path) -> None:
    model = ag.compile(DIGITS, backend=DEVICES, partition=PIPELINE)
    model.save(tmp_path / "model.agc")
    assert stages_of(ag.load(tmp_path / "model.agc")) == stages_of(model)


def test_each_stage_holds_its_own_weights_alone() -> None:
    model = ag.compile(DIGITS, backend=DEVICES, partition=PIPELINE)
    first, second = stages_of(model).parts
    whole = len(model.saved_bytes())
    assert max(len(first.content), len(second.content)) < whole
    assert (first.name, first.threads, first.outputs) == ("cpu:0", 1, second.inputs)


def test_divided_batches_are_refused() -> None:
    module = ag.parse_module("""
        func @main(%x: f32[4, 2]) {
          %y = relu(%x) : f32[4, 2]
          return %y
        }
    """)
    model = ag.compile(module, backend=DEVICES, partition=ag.PartitionConfig(split_batch=True))
    with pytest.raises(UsageError, match="batches are divided over devices has no stages"):
        stages_of(model)
