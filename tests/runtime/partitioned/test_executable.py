"""Partitioned programs put together by hand, run in one process, and from a file."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow import ops  # noqa: F401  for the parser
from afterglow.driver.devices import find_device
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.partitioned.graph import Part, PartGraph, Rows, of_artifact, to_artifact
from afterglow.support.errors import UsageError
from afterglow.types import Interface, Port, TensorType
from afterglow.types.dtype import f32

DOUBLED = """
func @main(%x: f32[2,3]) {
  %y = add(%x, %x) : f32[2,3]
  return %y
}
"""


@pytest.fixture(scope="module")
def doubled():
    """A program that doubles two rows."""
    return ag.compile(ag.parse_module(DOUBLED), cache=False).compiled.artifact


def part(artifact, inputs, outputs):
    return Part(LogicalDevice("cpu:0", threads=1), artifact, inputs, outputs)


def port(name, rows):
    return Port(name, TensorType(f32, (rows, 3)))


def load(graph, inputs, outputs):
    artifact = to_artifact(graph, Interface(inputs, outputs))
    assert of_artifact(artifact) == graph
    return find_device("partitioned").load(artifact)


def test_parts_run_one_after_the_other(doubled):
    parts = part(doubled, ("x",), ("a",)), part(doubled, ("a",), ("y",))
    graph = PartGraph(("x",), ("y", "a"), parts)
    loaded = load(graph, (port("x", 2),), (port("y", 2), port("a", 2)))
    y, a = loaded.run([np.full((2, 3), 1.5, np.float32)], {})
    assert (y == 6).all()
    assert (a == 3).all()


def test_a_batch_is_divided_over_parts_and_joined(doubled):
    parts = part(doubled, ("x0",), ("y0",)), part(doubled, ("x1",), ("y1",))
    rows = {"x0": Rows("x", 0, 2), "x1": Rows("x", 2, 4)}
    graph = PartGraph(("x",), ("y",), parts, rows, {"y": ("y0", "y1")})
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    (y,) = load(graph, (port("x", 4),), (port("y", 4),)).run([x], {})
    assert np.array_equal(y, 2 * x)


def test_a_part_that_reads_what_comes_later_is_refused(doubled):
    parts = part(doubled, ("y",), ("a",)), part(doubled, ("a",), ("y",))
    with pytest.raises(UsageError, match="a part of the model reads 'y' before it is computed"):
        PartGraph(("x",), ("y",), parts)
