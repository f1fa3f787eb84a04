"""Models over data sets."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from afterglow import CompiledModel, UsageError
from afterglow.ray import predict
from afterglow.ray.batches import Predictor


@pytest.mark.slow
def test_a_data_set_gets_a_column_for_each_output(
    cluster: Cluster, whole: CompiledModel, images: list[np.ndarray]
) -> None:
    items = ray.data.from_items([{"pixels": image[0]} for image in images])
    rows = predict(items, whole, columns={"image": "pixels"}, batch_size=8).take_all()
    assert len(rows) == len(images)
    for row in rows:
        np.testing.assert_array_equal(row["probabilities"], whole(row["pixels"][None])[0])


def made(model: CompiledModel, **columns: str) -> Predictor:
    return Predictor(SimpleNamespace(load=lambda threads: model), 1, columns)


@pytest.mark.parametrize("count", [1, 3])
def test_a_model_for_one_item_computes_any_number(
    whole: CompiledModel, images: list[np.ndarray], count: int
) -> None:
    batch = {"image": np.concatenate(images[:count])}
    results = made(whole)(batch)["probabilities"]
    np.testing.assert_array_equal(results, np.concatenate([whole(x) for x in images[:count]]))


def test_a_missing_column_is_named(whole: CompiledModel) -> None:
    with pytest.raises(UsageError, match="has no column 'image'"):
        made(whole)({"pixels": np.zeros((1, 1, 8, 8))})
