"""Weights rounded by samples: what users give, and what they get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow
from afterglow.driver.cache import model_key
from afterglow.driver.dims import DimOptions
from afterglow.driver.options import Options
from afterglow.driver.rounding import rounding_by
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.types import Array
from tests.frontends.models import info, model, node

DEPTH = 128
RNG = np.random.default_rng(0)
MIXING = RNG.normal(size=(16, DEPTH)).astype(np.float32)
"""Inputs have few causes, so that rounding can make up for its own errors."""


def inputs(count: int, seed: int) -> Array:
    """Rows, of which a sample has twelve."""
    causes = np.random.default_rng(seed).normal(size=(count, 12, 16)).astype(np.float32)
    return causes @ MIXING


NETWORK = model(
    [
        node("MatMul", ["x", "w"], ["h"], name="first"),
        node("Add", ["h", "b"], ["s"]),
        node("Relu", ["s"], ["r"]),
        node("MatMul", ["r", "v"], ["y"], name="second"),
    ],
    inputs=[info("x", (12, DEPTH))],
    outputs=[info("y", (12, DEPTH))],
    constants={
        "w": RNG.normal(size=(DEPTH, DEPTH)).astype(np.float32) / 16,
        "b": RNG.normal(size=DEPTH).astype(np.float32),
        "v": RNG.normal(size=(DEPTH, DEPTH)).astype(np.float32) / 16,
    },
)
SEEN, UNSEEN = inputs(24, 1), inputs(6, 2)


def compiled(**options: Any) -> Any:
    return afterglow.compile(NETWORK, backend="interpreter", cache=False, **options)


def error(**options: Any) -> float:
    """The squared error of outputs on samples that nothing was rounded by."""
    floats, rounded = compiled(), compiled(**options)
    return float(np.mean([np.square(rounded(x) - floats(x)).mean() for x in UNSEEN]))


@pytest.mark.parametrize(
    ("precision", "most"), [("weights_int4", 0.5), ("weights_int8", 0.5), ("dynamic_int8", 0.95)]
)
def test_rounding_by_samples_has_less_error_on_others(precision: str, most: float) -> None:
    nearest = error(precision=precision)
    assert error(precision=precision, round_weights=SEEN) < most * nearest


def test_a_quantized_model_is_rounded_by_samples_with_scaled_channels_too() -> None:
    profile = afterglow.profile(NETWORK, SEEN, backend="interpreter", cache=False)
    for equalise in (False, True):
        config = afterglow.QuantizationConfig(equalise=equalise)
        options = {"precision": "int8", "profile": profile, "quantization": config}
        assert error(**options, round_weights=SEEN) < 0.95 * error(**options)


def test_samples_are_what_profiles_are_made_of(tmp_path: Path) -> None:
    few = SEEN[:8]
    np.save(tmp_path / "one.npy", few)
    given: list[Any] = [few, iter(few), tmp_path, afterglow.ImageSamples(tmp_path / "one.npy")]
    found = [compiled(precision="weights_int8", round_weights=one)(UNSEEN[0]) for one in given]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


def key(samples: Any) -> str:
    options = rounding_by(samples, NETWORK, Options(precision="weights_int4"), DimOptions())
    return model_key("digest", options)


def test_models_are_cached_for_their_samples(tmp_path: Path) -> None:
    path, other = tmp_path / "one.npy", SEEN.copy()
    other[3, 2, 1] += 1
    np.save(path, SEEN)
    files = key(path)
    assert key(SEEN) == key(SEEN.copy())
    np.save(path, other)
    images = afterglow.ImageSamples(path, mean=0.5)
    keys = [None, SEEN, [*SEEN], other, [{"x": one} for one in SEEN], path, images]
    assert len({files, *map(key, keys)}) == len(keys) + 1


def test_a_cached_model_runs_nothing_on_samples(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(NETWORK.SerializeToString())
    stages: list[str] = []
    for _ in range(2):
        afterglow.compile(
            path,
            backend="interpreter",
            precision="weights_int4",
            round_weights=SEEN[:4],
            cache=tmp_path / "cache",
            progress=stages.append,
        )
    assert stages.count("sample layers") == stages.count("round weights") == 1


def test_samples_of_several_shapes_round_the_same_weights() -> None:
    free = replace_shape(NETWORK)
    samples = [x[: 3 + n % 4] for n, x in enumerate(SEEN)]
    floats, rounded = (
        afterglow.compile(free, backend="interpreter", cache=False, **options)
        for options in ({}, {"precision": "weights_int4", "round_weights": samples})
    )
    nearest = afterglow.compile(free, backend="interpreter", cache=False, precision="weights_int4")
    for rows in (1, 5, 12):
        x = UNSEEN[0][:rows]
        errors = [np.square(m(x) - floats(x)).mean() for m in (rounded, nearest)]
        assert errors[0] < 0.7 * errors[1]


def replace_shape(network: Any) -> Any:
    """The same network with any number of rows."""
    free = type(network)()
    free.CopyFrom(network)
    for value in (*free.graph.input, *free.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    return free


def nothing() -> Iterator[Array]:
    return iter(())


BROKEN = np.full_like(SEEN[:2], np.nan)
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"precision": "float32", "round_weights": SEEN},
        "error: precision 'float32' rounds no weights to integers\n"
        "  help: leave out the samples to round by, or use precision weights_int8, weights_int4, "
        "dynamic_int8, int8",
    ),
    (
        {"precision": "weights_int4", "round_weights": SEEN, "optimize": False},
        "error: rounding weights by samples needs optimisations\n"
        "  help: layers are those of the optimised graph: leave optimize as it is",
    ),
    (
        {"precision": "weights_int4", "round_weights": nothing()},
        "error: there are no samples\n  help: give some that are like the inputs of later runs",
    ),
    (
        {"precision": "weights_int4", "round_weights": "/nowhere"},
        "error: there are no samples at /nowhere: no such file or folder",
    ),
    (
        {"precision": "weights_int4", "round_weights": BROKEN},
        "error: a layer reads NaN or infinity, by which no weights can be rounded\n"
        "  in node 'first', in array[0]\n"
        "  help: give samples that are like the inputs of later runs",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_rounded_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AfterglowError) as error:
        compiled(**options)
    assert str(error.value) == message


def test_rounding_by_samples_is_compared_with_floats() -> None:
    losses = []
    for samples in (None, SEEN[:20]):
        quality = afterglow.quantization_quality(
            NETWORK,
            None,
            UNSEEN[:4],
            precision="weights_int4",
            round_weights=samples,
            backend="interpreter",
            cache=False,
        )
        report = quality.report(labels=np.zeros((4, 12), np.int64))
        losses.append(report.metrics["divergence"])
        assert 1 < report.metrics["perplexity_float"] < report.metrics["perplexity_int"] * 2
        assert report.stored_bytes < 0.3 * report.weight_bytes
    assert 0 < losses[1] < 0.6 * losses[0]
    with pytest.raises(UsageError, match="precision 'weights_int4' has no profile"):
        _ = quality.profile
    with pytest.raises(UsageError, match="with precision 'weights_int4', no layers are kept"):
        quality.keep_within(0.1)


def test_nothing_is_compared_without_integers() -> None:
    with pytest.raises(UsageError) as error:
        afterglow.quantization_quality(NETWORK, None, UNSEEN, precision="float32")
    assert str(error.value) == (
        "error: precision 'float32' has nothing in few bits to compare with floats\n"
        "  help: use precision weights_int8, weights_int4, weights_f8, dynamic_int8 or int8"
    )
