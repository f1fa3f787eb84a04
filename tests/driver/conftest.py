"""What tests of the driver share."""

from __future__ import annotations

import pytest

from afterglow.driver.stages import Stages
from afterglow.graph import Module
from afterglow.runtime import CompiledFunction


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes for which anything was compiled."""
    shapes: list[tuple[int, ...]] = []
    original = Stages.finish

    def finish(self: Stages, module: Module) -> CompiledFunction:
        shapes.append(module.main.inputs[0].type.shape)
        return original(self, module)

    monkeypatch.setattr(Stages, "finish", finish)
    return shapes
