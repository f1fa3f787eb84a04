"""Ops of PyTorch's libraries that users have declared to Afterglow, too."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from tests.ops.own_ops import forget_own_ops

torch = pytest.importorskip("torch")

__all__ = ["forget_own_ops"]


class Scaled(torch.nn.Module):
    """A module that calls an op of a library."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.ops.afterglow_test.scaled(x, 0.5, often=3))


def test_an_op_of_a_library_is_the_one_bound_to_it() -> None:
    @torch.library.custom_op("afterglow_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, rate: float = 1.0, often: int = 1) -> torch.Tensor:
        return x * rate * often

    scaled.register_fake(lambda x, rate=1.0, often=1: torch.empty_like(x))
    ag.op(
        "acme::scaled",
        "o[i] = rate * often * x[i]",
        attributes={"rate": 1.0, "often": 1},
        torch="afterglow_test::scaled",
    )
    x = torch.tensor([-1.0, 2.0])
    model = ag.compile(torch.export.export(Scaled(), (x,)))
    np.testing.assert_allclose(np.asarray(model(x.numpy())), [0, 3])
