"""Networks of layers compute and learn what the same networks of PyTorch do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from afterglow.graph import Builder, Value
from afterglow.graph.evaluate import run_function
from afterglow.ops.elementwise import Mul, scalar
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.softmax import LogSoftmax
from afterglow.training.step import Recipe, training_step
from afterglow.types import TensorType
from tests.training.networks import NETWORKS, reference

FEW_STEPS = 20

each_network = pytest.mark.parametrize("name", NETWORKS)


@dataclass(frozen=True)
class CrossEntropy:
    """The mean cross entropy with labels that are given as rows of zeros and a one."""

    def targets(self, outputs: tuple[TensorType, ...]) -> tuple[tuple[str, TensorType], ...]:
        return (("target", outputs[0]),)

    def emit(self, b: Builder, outputs: tuple[Value, ...], targets: tuple[Value, ...]) -> Value:
        chosen = b.emit(Mul(), b.emit(LogSoftmax(1), outputs[0]), targets[0])
        total = b.emit(ReduceSum((0, 1), keepdims=False), chosen)
        return b.emit(Mul(), total, scalar(b, -1 / outputs[0].type.shape[0], total))


@each_network
def test_outputs_are_those_of_pytorch(name: str) -> None:
    network = NETWORKS[name]
    (y,) = run_function(network.module().main, [network.batch(0)[0]])
    np.testing.assert_allclose(y, reference(name)["outputs"], atol=1e-6)


@each_network
def test_losses_are_those_of_pytorch(name: str) -> None:
    network = NETWORKS[name]
    module = network.module()
    step = training_step(module, Recipe(CrossEntropy(), network.optimizer))
    main = step.module.main
    states = {s.name: np.zeros(s.type.shape, s.type.dtype.numpy) for s in main.states()}
    first = step.initial({key: constant.data for key, constant in module.constants.items()})
    states.update((key, value.copy()) for key, value in first.items())
    losses = []
    for number in range(FEW_STEPS):
        x, labels = network.batch(number)
        target = np.eye(network.classes, dtype=np.float32)[labels]
        (loss,) = run_function(main, [x, target, np.array(network.optimizer.lr, "f")], states)
        losses.append(loss)
    np.testing.assert_allclose(losses, reference(name)["losses"][:FEW_STEPS], rtol=1e-5)
