"""Runs that show their steps in a trace: whole programs, and parts on devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow as ag
from afterglow import CompiledModel
from afterglow.runtime.recorded import run_with_steps
from afterglow.runtime.trace import Row, Trace
from afterglow.types import Array
from tests.serve.models import DOUBLE, save

DIGITS = Path("examples/digits/digits.onnx")
HERE = Row("cpu", "here")


def image() -> Array:
    return np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)


def check(model: CompiledModel, trace: Trace, inputs: dict[str, Array]) -> None:
    """The outputs are those of a run without a trace, to the bit."""
    expected = model.run(None, inputs)
    for found, right in zip(run_with_steps(trace, HERE, model, inputs), expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_each_step_is_shown_where_it_is_wanted_with_the_nodes_that_it_computes() -> None:
    model, trace = ag.compile(DIGITS, threads=2), Trace()
    check(model, trace, {"image": image()})
    executable = model.compiled.executable
    steps = [(step.kernel, ", ".join(step.origins)) for step in executable.steps()]
    assert [(span.name, span.details["node"]) for span in trace.spans] == steps
    assert {(span.row, span.kind, span.request) for span in trace.spans} == {(HERE, "step", 1)}
    ends = [span.end for span in trace.spans]
    assert all(end <= span.begin for end, span in zip(ends, trace.spans[1:], strict=False))


def test_a_run_that_nobody_records_shows_nothing() -> None:
    model, trace = ag.compile(DIGITS, threads=1), Trace()
    model.run(None, {"image": image()})
    assert trace.spans == []


def test_parts_on_devices_show_their_steps_and_themselves() -> None:
    devices = [ag.LogicalDevice(f"cpu:{place}", threads=1) for place in range(2)]
    config = ag.PartitionConfig("throughput")
    model, trace = ag.compile(DIGITS, backend=devices, partition=config), Trace()
    check(model, trace, {"image": image()})
    kinds = {(span.row.process, span.kind) for span in trace.spans}
    assert kinds == {(f"cpu:{place}", kind) for place in range(2) for kind in ("compute", "step")}


def test_inputs_are_checked_as_in_a_call(tmp_path: Path) -> None:
    model = ag.compile(save(tmp_path, "double.onnx", DOUBLE), threads=1)
    with pytest.raises(ag.UsageError, match="no input 'z'"):
        run_with_steps(Trace(), HERE, model, {"z": image()})
