"""What the tests of hosts share."""

from __future__ import annotations

import pytest

import afterglow as ag
from afterglow import ops  # noqa: F401  for the parser

DOUBLED = """
func @main(%x: f32[2,3]) {
  %y = add(%x, %x) : f32[2,3]
  return %y
}
"""


@pytest.fixture(scope="package")
def double() -> ag.CompiledModel:
    """A model that doubles its input."""
    return ag.compile(ag.parse_module(DOUBLED), cache=False)
