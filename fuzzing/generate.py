"""Random models made by NNSmith: `python -m fuzzing.generate FOLDER --count 10000`."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import itertools
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.onnx
from nnsmith.abstract.extension import activate_ext
from nnsmith.graph_gen import model_gen
from nnsmith.materialize import Model
from nnsmith.narrow_spec import auto_opset

from fuzzing.corpus import Example, write_corpus

MOST_ELEMENTS = 4096
"""Elements of a tensor at most: small ones take all ways through the compiler, too."""

MOST_BYTES = 1 << 18
"""Bytes of a model at most: NNSmith does not bound the weights of layers."""


def make_generator() -> Callable[[int], Example]:
    """A function from seeds to models with inputs; a seed that leads to no model raises."""
    # NNSmith calls the exporter of its time, which PyTorch has kept under this option.
    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    ops = auto_opset(kind, None, vulops=True)
    activate_ext(opset=ops, factory=None)
    return functools.partial(_generated, kind, ops)


def _generated(kind: Any, ops: Any, seed: int) -> Example:
    shape = random.Random(seed)
    graph = model_gen(
        opset=ops,
        method="symbolic-cinit",
        seed=seed,
        max_elem_per_tensor=MOST_ELEMENTS,
        max_nodes=shape.randint(1, 16),
        concr_ph_dim_rng=(1, shape.choice([4, 8, 16, 32])),
        timeout_ms=10_000,
    )
    model = kind.from_gir(graph.make_concrete())
    model.refine_weights()
    data = model.native_model.SerializeToString()
    if len(data) > MOST_BYTES:
        raise ValueError("the weights are large")
    return Example(f"{seed:08}", data, model.make_oracle().input)


def generated(first: int) -> Iterator[Example]:
    """Models of all seeds from the first on that lead to one."""
    generate = make_generator()
    for seed in itertools.count(first):
        # whatever NNSmith, its solver and PyTorch raise, the next seed is as good
        with contextlib.suppress(Exception):
            yield generate(seed)


def main() -> None:
    """Write a corpus of random models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first model")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):  # the exporter talks
        models = itertools.islice(generated(arguments.seed), arguments.count)
        for written in write_corpus(arguments.folder, models):
            print(f"{written} models", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
