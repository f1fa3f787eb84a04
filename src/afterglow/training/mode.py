"""Training mode: what a model computes otherwise while it learns.

Batch norms use the statistics of the batch, and keep running ones. Dropouts drop elements, by
random numbers that depend on the seed, the node and the step alone: they are the same for any
number of threads, and after a resumption. What is in the body of a loop or a branch stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.graph.value import Placeholder
from afterglow.ops.channels import ChannelMoments
from afterglow.ops.elementwise import Add, LessEqual, Mul, Where, scalar
from afterglow.ops.movement import Reshape, slice_axis
from afterglow.ops.normalization import BatchNorm
from afterglow.ops.random import Dropout, RandomUniform
from afterglow.support.errors import UsageError
from afterglow.training.parameters import Parameter, matching, to_states

STEP_BITS = 48
"""The bits of a run's number that count steps; those above tell dropouts apart."""


def to_training_mode(
    function: Function,
    step: Value,
    *,
    frozen: Sequence[str] = (),
    seed: int = 0,
) -> list[Parameter]:
    """Rewrite a function that infers to one that learns; the running statistics, now states.

    `step` is the number of steps so far. Batch norms whose running mean matches a pattern in
    `frozen` go on to use their running statistics, which then do not change.
    """
    _drop_elements(function, step, seed)
    norms = _learning_norms(function, frozen)
    statistics = [value for norm in norms for value in _statistics_of(norm)]
    parameters = [Parameter(c.name, c.type, trains=False) for c in dict.fromkeys(statistics)]
    to_states(function, parameters)
    for norm in norms:
        _use_batch(function, norm)
    return parameters


def running_means(function: Function) -> list[str]:
    """The names of the running means of batch norms, in order."""
    return [_statistics_of(norm)[0].name for norm in _norms(function)]


def _learning_norms(function: Function, frozen: Sequence[str]) -> list[Node]:
    """The batch norms with running statistics, without those that are frozen."""
    means = running_means(function)
    kept = {*matching(means, frozen, "running mean of a batch norm")}
    pairs = zip(_norms(function), means, strict=True)
    return [node for node, mean in pairs if mean not in kept]


def _norms(function: Function) -> list[Node]:
    """The batch norms with running statistics."""
    return [
        node
        for node in function.nodes
        if isinstance(node.op, BatchNorm) and len(_statistics_of(node)) == 2
    ]


def _statistics_of(norm: Node) -> list[Constant]:
    """The running mean and variance of a batch norm, if they are constants."""
    return [value for value in norm.operands[3:] if isinstance(value, Constant)]


def _use_batch(function: Function, norm: Node) -> None:
    """Normalize by the mean and variance of the batch, and update the running ones."""
    x, old_mean, old_variance = (norm.operand(name) for name in ("x", "mean", "variance"))
    assert x is not None
    assert isinstance(norm.op, BatchNorm)
    count = x.type.size // x.type.shape[norm.op.axis]
    if count < 2:
        raise UsageError(
            f"batch norm %{norm.name} has one value per channel, whose variance is 0",
            help="train with a larger batch, or freeze the running statistics",
        )
    b = Builder(function, norm, origins=norm.origins)
    mean, variance = b.emit_all(ChannelMoments(norm.op.axis), x)
    unbiased = b.emit(Mul(), variance, scalar(b, count / (count - 1), variance))
    for old, new in ((old_mean, mean), (old_variance, unbiased)):
        assert isinstance(old, Placeholder)
        _blend(b, old, new, norm.op.momentum)
    norm.set_operand(3, mean)
    norm.set_operand(4, variance)


def _blend(b: Builder, state: Placeholder, new: Value, momentum: float) -> None:
    """Update a running statistic; one that several norms share, by each of them in turn."""
    earlier = [update for update in b.function.updates if update.state is state]
    old = earlier[0].value if earlier else state
    kept = b.emit(Mul(), old, scalar(b, 1 - momentum, old))
    blended = b.emit(Add(), kept, b.emit(Mul(), new, scalar(b, momentum, new)))
    if earlier:
        earlier[0].value = blended
    else:
        b.function.update(state, blended)


def _drop_elements(function: Function, step: Value, seed: int) -> None:
    """Let each dropout keep elements with probability 1 - rate, and scale what is kept."""
    dropouts = [node for node in function.nodes if isinstance(node.op, Dropout)]
    if not dropouts:
        return
    runs = _runs(Builder(function, dropouts[0]), step, len(dropouts))
    for node, run in zip(dropouts, runs, strict=True):
        dropped = _dropped(Builder(function, node, origins=node.origins), node, run, seed)
        function.replace(node.result, dropped)
        function.erase(node)


def _runs(b: Builder, step: Value, count: int) -> list[Value]:
    """The number of the step for each of some dropouts, with that of the dropout above it.

    So the dropouts differ in a number that is read, and all of one shape have the same code.
    """
    numbers = b.constant(np.arange(count, dtype=np.int64) << STEP_BITS, "dropouts")
    runs = b.emit(Add(), step, numbers)
    each = (b.emit(slice_axis(runs.type, 0, index, 1), runs) for index in range(count))
    return [b.emit(Reshape(()), run) for run in each]


def _dropped(b: Builder, node: Node, run: Value, seed: int) -> Value:
    """x / (1 - rate) where a random number is at least the rate, else 0."""
    (x,), op = node.given, node.op
    assert isinstance(op, Dropout)
    if op.rate == 0:
        return x
    drawn = b.emit(RandomUniform(x.type.shape, seed=seed % 2**64), run)
    kept = b.emit(LessEqual(), scalar(b, op.rate, drawn), drawn)
    scaled = b.emit(Mul(), x, scalar(b, 1 / (1 - op.rate), x))
    return b.emit(Where(), kept, scaled, scalar(b, 0, x))
