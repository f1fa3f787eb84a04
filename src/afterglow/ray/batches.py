"""Batch inference over a data set of Ray Data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.ray.node_files import StoredModel, store
from afterglow.runtime import CompiledModel
from afterglow.runtime.streams import checked_count
from afterglow.support.errors import UsageError
from afterglow.types import Array


class Predictor:
    """A model in an actor of Ray Data: adds the columns of its outputs to those of a batch."""

    def __init__(self, model: StoredModel, threads: int, columns: Mapping[str, str]) -> None:
        self.model = model.load(threads)
        self.columns = {info.name: columns.get(info.name, info.name) for info in self.model.inputs}

    def __call__(self, batch: dict[str, Array]) -> dict[str, Array]:
        """The batch with a column for each output."""
        missing = [column for column in self.columns.values() if column not in batch]
        if missing:
            raise UsageError(
                f"the data set has no column {missing[0]!r}, which the model reads",
                help=f"it has {', '.join(batch)}; columns= says which column an input is",
            )
        feed = {name: np.asarray(batch[column]) for name, column in self.columns.items()}
        outputs = run_in_batches(self.model, feed)
        return {**batch, **outputs}


def run_in_batches(model: CompiledModel, feed: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs for any number of items, by name, also if the model takes a fixed number.

    The last batch of such a model repeats an item until it is full.
    """
    names = [info.name for info in model.outputs]
    size = _fixed_batch(model)
    count = min(len(array) for array in feed.values())
    if size is None or size == count:
        return dict(zip(names, model.run(None, dict(feed)), strict=True))
    runs = []
    for start in range(0, count, size):
        places = np.minimum(np.arange(start, start + size), count - 1)
        runs.append(model.run(None, {name: array[places] for name, array in feed.items()}))
    return {
        name: np.concatenate([np.asarray(part) for part in parts])[:count]
        for name, parts in zip(names, zip(*runs, strict=True), strict=True)
    }


def _fixed_batch(model: CompiledModel) -> int | None:
    """The first extent of all inputs if the model has one that it was compiled for."""
    firsts = {(info.shape or (None,))[0] for info in model.inputs}
    first = firsts.pop() if len(firsts) == 1 else None
    return first if isinstance(first, int) else None


def predict(
    dataset: Any,
    model: str | Path | bytes | CompiledModel | StoredModel,
    *,
    columns: Mapping[str, str] | None = None,
    batch_size: int = 32,
    concurrency: int | tuple[int, int] = 1,
    threads: int = 1,
) -> Any:
    """A data set with the outputs of a model as further columns; it is computed as it is read.

    `columns` says which column an input is read from, if not from that of its own name.
    `concurrency` is how many actors run the model, or the least and the most of them; each has
    `threads` cores. The model goes to the nodes once, through the object store.
    """
    checked_count("threads", threads)
    return dataset.map_batches(
        Predictor,
        fn_constructor_args=(store(model), threads, dict(columns or {})),
        batch_size=checked_count("batch_size", batch_size),
        concurrency=concurrency,
        num_cpus=threads,
        batch_format="numpy",
    )
