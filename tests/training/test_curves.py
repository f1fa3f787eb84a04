"""Loss curves: those of PyTorch, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.training.step import Recipe, training_step
from afterglow.types import Array
from tests.training.networks import NETWORKS, STEPS, Network, reference


def learn(network: Network, threads: int) -> tuple[list[float], dict[str, Array]]:
    """The loss of each step, and the state after them."""
    module = network.module()
    step = training_step(module, Recipe(ag.optim.CrossEntropy(), network.optimizer))
    model = ag.compile(step.module, threads=threads)
    model.reset(step.initial({name: c.data for name, c in module.constants.items()}))
    rate = np.float32(network.optimizer.lr)
    losses = []
    for number in range(STEPS):
        x, labels = network.batch(number)
        feed = {step.inputs[0]: x, step.targets[0]: labels, step.rate: rate}
        losses.append(float(model.run(None, feed)[0]))
    states = model.compiled.states
    return losses, {name: state.read().result() for name, state in states.items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_are_those_of_pytorch_on_any_number_of_threads(name: str) -> None:
    network = NETWORKS[name]
    losses, states = learn(network, 1)
    assert np.allclose(losses, reference(name)["losses"], rtol=1e-4, atol=0)
    again, others = learn(network, 2)
    assert again == losses
    assert all((states[each] == others[each]).all() for each in states)
