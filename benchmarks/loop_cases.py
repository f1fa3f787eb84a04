"""The models that `benchmarks.loops` times: what makes each, and inputs for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks import loop_graphs as graphs
from benchmarks import loop_lengths as lengths
from benchmarks import loop_modules as modules
from benchmarks import loop_searches as searches

Draw = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A model, and what draws inputs for it."""

    name: str
    make: Callable[[], bytes]
    feed: Callable[[Draw], dict[str, Any]]


def _normal(draw: Draw, *shape: int) -> np.ndarray:
    return draw.standard_normal(shape).astype(np.float32)


def _boxes(draw: Draw, count: int) -> np.ndarray:
    """Low and high corners."""
    low = draw.uniform(0, 10, (count, 2))
    return np.hstack([low, low + draw.uniform(0.5, 4, (count, 2))]).astype(np.float32)


def _scripted(
    module: type[torch.nn.Module],
    feed: Callable[[Draw], list[np.ndarray]],
    dynamic: dict[str, dict[int, str]],
    suffix: str = "",
) -> Case:
    """A module that is exported for the first inputs that are drawn."""

    def make() -> bytes:
        inputs = [torch.from_numpy(np.asarray(x)) for x in feed(np.random.default_rng(1))]
        return modules.exported(module, inputs, dynamic)

    def named(draw: Draw) -> dict[str, Any]:
        return {f"input{number}": np.asarray(x) for number, x in enumerate(feed(draw))}

    return Case(module.__name__ + suffix, make, named)


def _written(name: str, feed: Callable[[Draw], dict[str, Any]], suffix: str = "") -> Case:
    return Case(name.lower() + suffix, partial(graphs.weighted, getattr(graphs, name)), feed)


def _tokens(draw: Draw, count: int, words: int = 50) -> np.ndarray:
    return draw.integers(3, words, (1, count))


_TIME = {"input0": {0: "batch", 1: "time"}}
_ROWS = {"input0": {0: "rows"}}
_NOISE = {"input1": {0: "count"}}
_STEPS = np.array(30)

CASES = (
    _scripted(modules.LstmDecoder, lambda d: [_normal(d, 2, 20, 64)], _TIME),
    _scripted(modules.GruSteps, lambda d: [_normal(d, 2, 25, 48)], _TIME),
    _scripted(modules.GruSteps, lambda d: [_normal(d, 2, 200, 48)], _TIME, " (200)"),
    _scripted(modules.BranchingSteps, lambda d: [_normal(d, 2, 25, 48)], _TIME),
    _scripted(
        modules.Recomputing,
        lambda d: [_tokens(d, 4), np.array(20)],
        {"input0": {1: "length"}},
    ),
    _scripted(modules.Cached, lambda d: [_tokens(d, 1)], {}),
    _scripted(modules.Sampled, lambda d: [_normal(d, 1, 64), _normal(d, 30) % 1], _NOISE),
    _scripted(modules.Converging, lambda d: [_normal(d, 4, 64)], _ROWS),
    _scripted(modules.Transducer, lambda d: [_normal(d, 20, 48)], _ROWS),
    _scripted(modules.Reversed, lambda d: [_normal(d, 20, 1, 32)], _ROWS),
    _scripted(searches.Beams, lambda d: [_normal(d, 1, 64)], {}),
    _scripted(searches.Collapsed, lambda d: [_normal(d, 60, 12)], _ROWS),
    _scripted(searches.FrameByFrame, lambda d: [_normal(d, 20, 48)], _ROWS),
    _scripted(searches.Batched, lambda d: [_normal(d, 3, 64), np.array(25)], _ROWS),
    _scripted(searches.Unbounded, lambda d: [_normal(d, 1, 64)], {}),
    _scripted(lengths.Sliding, lambda d: [_normal(d, 1, 30, 32)], _TIME),
    _scripted(
        lengths.Suppressed,
        lambda d: [_boxes(d, 40), d.random(40, np.float32)],
        {"input0": {0: "rows"}, "input1": {0: "rows"}},
    ),
    _scripted(
        lengths.Segments,
        lambda d: [_normal(d, 12, 30, 16), d.integers(1, 30, 12)],
        {"input0": {0: "batch", 1: "time"}, "input1": {0: "batch"}},
    ),
    _scripted(lengths.Queue, lambda d: [_normal(d, 30, 8)], _ROWS),
    _scripted(lengths.Merged, lambda d: [_normal(d, 30, 8)], _ROWS),
    _scripted(lengths.Shortened, lambda d: [_normal(d, 30, 8)], _ROWS),
    _scripted(lengths.Active, lambda d: [_normal(d, 12, 16)], _ROWS),
    _scripted(lengths.Masked, lambda d: [_normal(d, 20, 6, 16)], _ROWS),
    _written("GROWING_TOKENS", lambda d: {"tokens": _tokens(d, 4), "steps": _STEPS}),
    _written("GROWING_CACHE", lambda d: {"x": _normal(d, 1, 64), "steps": _STEPS}),
    _written("WHILE_ONLY", lambda d: {"x": _normal(d, 16) + 2}),
    _written("STACKED_UNTIL", lambda d: {"x": _normal(d, 1, 32), "steps": _STEPS}),
    _written("NESTED", lambda d: {"x": _normal(d, 10, 16), "inner": np.array(5)}),
    _written("SEQUENCES", lambda d: {"x": _normal(d, 20, 24)}),
    _written("SEQUENCES", lambda d: {"x": _normal(d, 300, 24)}, " (300)"),
    _written("SEQUENCE_IN_CONDITION", lambda d: {"x": _normal(d, 20, 24)}),
    _written("GROWING_IN_CONDITION", lambda d: {"x": _normal(d, 20, 24)}),
    _written("SHRINKING", lambda d: {"x": _normal(d, 20, 8)}),
    _written("DOUBLING", lambda d: {"x": _normal(d, 2, 8), "steps": np.array(6)}),
    _written("SCANS", lambda d: {"x": _normal(d, 20, 16)}),
    _written(
        "LOOP_IN_BRANCH",
        lambda d: {"x": _normal(d, 1, 16), "which": np.array(True), "steps": np.array(12)},
    ),
    _written("BRANCH_IN_LOOP", lambda d: {"x": _normal(d, 2, 32), "steps": np.array(20)}),
)
