"""Networks of layers compute what the same networks of PyTorch do."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph.evaluate import run_function
from tests.training.networks import NETWORKS, reference


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_those_of_pytorch(name: str) -> None:
    network = NETWORKS[name]
    (y,) = run_function(network.module().main, [network.batch(0)[0]])
    np.testing.assert_allclose(y, reference(name)["outputs"], atol=1e-6)
