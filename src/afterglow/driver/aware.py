"""`quantization_aware`, the public entry point: a model that learns to be quantized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from afterglow.driver.api import loaded_profile
from afterglow.driver.dims import DimOptions, Dims
from afterglow.driver.options import Options, check_bindings
from afterglow.driver.pipelines import optimising_pipeline
from afterglow.driver.profiled import open_profiled
from afterglow.graph import Module
from afterglow.passes import Pipeline
from afterglow.quantization.aware import MakeAware
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.profile import Profile
from afterglow.support.errors import UsageError


def quantization_aware(
    source: Any,
    profile: Profile | str | Path,
    *,
    quantization: QuantizationConfig | None = None,
    learn_ranges: bool = True,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
) -> Module:
    """A module that computes what a model would in integers, and that can be trained.

    It is the optimised model, batch norms folded, with fake quantizations where `compile` would
    store integers with precision="int8" and the same profile. After training, `compile` makes
    integers of it without a profile: docs/training.md.

    Args:
        source: what `compile` takes.
        profile: what `profile` observed of the model, or the path of its file.
        quantization: how integers are chosen; None for the defaults.
        learn_ranges: whether the ranges of activations train, too.
        shapes: shapes of inputs by name, to bind dynamic dimensions.
        dims: extents of dimensions by name.
    """
    check_bindings(shapes, dims)
    known = loaded_profile(profile)
    if not isinstance(known, Profile):
        raise UsageError(
            f"a profile of the model is needed, got {profile!r}",
            help="observe one: ag.profile(model, batches)",
        )
    options = Options(
        shapes=shapes or {},
        dims=DimOptions.of(dims or {}).bound,
        precision="int8",
        profile=known,
        quantization=quantization,
    )
    module, _ = open_profiled(source, options).load(options)
    config = (quantization or QuantizationConfig()).keeping(known.keep, known.int16)
    optimising_pipeline().run(module)
    Pipeline("aware", (MakeAware(known.observations, config, learn=learn_ranges),)).run(module)
    return module
