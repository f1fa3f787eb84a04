"""`profile`, the public entry point: runs of a model on samples, with observers in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.driver.compile import compile_recipe
from afterglow.driver.dims import DimOptions, Dims
from afterglow.driver.environment import cache_folder, max_memory_by_default
from afterglow.driver.images import ImageOptions
from afterglow.driver.observed import ObservedRecipe, host_nodes
from afterglow.driver.options import OnSample, Options, Progress, check_bindings
from afterglow.driver.profiled import title_of, whole_graph
from afterglow.driver.samples import GivenSamples, Sample, Samples, no_samples
from afterglow.driver.sources import Source, open_source
from afterglow.driver.stages import find_backend
from afterglow.quantization.profile import ModelIdentity, Profile
from afterglow.runtime import CompiledModel
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


def profile(
    model: Any,
    samples: Any,
    *,
    limit: int | None = None,
    size: tuple[int, int] | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    backend: str = "cpu",
    threads: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
    values: Mapping[str, Array] | None = None,
    cache: bool | str | Path = True,
    progress: Progress | None = None,
    on_sample: OnSample | None = None,
) -> Profile:
    """Run a model on samples and observe its values, to quantize it by what was observed.

    Args:
        model: what `compile` takes.
        samples: any iterable of samples, each a dictionary {input: array}, a tuple of arrays in
            the order of the inputs, or the array of the only input; or the path of FILE.npy,
            FILE.npz, an image, or a folder of such files. An array of a file, or one given by
            itself, has samples along its first axis: docs/quantization.md.
        limit: how many samples to take at most.
        size: height and width of images, if the model's input has dynamic ones.
        mean: what is subtracted from pixels, which are numbers from 0 to 1; one for each channel,
            or one for all.
        std: what they are divided by then.
        backend: as for `compile`, as all that follows.
        threads: number of threads; by default all cores that this process may use.
        shapes: shapes of inputs by name, to bind dynamic dimensions.
        dims: extents of dimensions by name.
        values: inputs that become constants, by name.
        cache: folder for compiled code, True for the default one, False for none.
        progress: called with the name of each stage when it begins.
        on_sample: called after each sample with their number so far, and that of all or None.
    """
    check_bindings(shapes, dims, values, backend=backend)
    dim_options = DimOptions.of(dims or {})
    options = Options(
        backend=backend,
        threads=threads,
        shapes=shapes or {},
        dims=dim_options.bound,
        values=values or {},
        max_memory=max_memory_by_default(),
        cache=cache_folder(cache),
        progress=progress,
    )
    images = ImageOptions.of(size, mean, std)
    return profile_with(model, options, dim_options, (samples, images, limit), on_sample)


def profile_with(
    model: Any,
    options: Options,
    dim_options: DimOptions,
    given: GivenSamples,
    on_sample: OnSample | None = None,
) -> Profile:
    """The profile of a model, compiled with options, on samples with their options and limit."""
    find_backend(options)
    source = open_source(model)
    runs = SampleRuns.of(source, options, given)
    recipe = ObservedRecipe(source, options, runs.shapes)
    compiled = compile_recipe(recipe, dim_options)
    done = runs.run(compiled, on_sample)
    observations = recipe.records.observations()
    left_out = (*host_nodes(compiled), *recipe.records.left_out)
    if not observations:
        raise _nothing_observed(left_out)
    identity = ModelIdentity.of(whole_graph(source), title_of(source))
    return Profile(identity, done, observations, recipe.records.origins(), left_out)


def _nothing_observed(left_out: Sequence[str]) -> UsageError:
    what = "nothing in the model can be quantized: it has no convolution or product with weights"
    if not left_out:
        return UsageError(what)
    return UsageError(
        f"{what}, but in loops, branches, before logarithms or on the host", excerpt=left_out[:5]
    )


@dataclass(frozen=True)
class SampleRuns:
    """Samples to run a model on: the first, which tells their shapes, and the rest."""

    first: Sample
    rest: Iterator[Sample]
    count: int | None

    @staticmethod
    def of(source: Source, options: Options, given: GivenSamples) -> SampleRuns:
        """The samples that a user gives for a source; raises if there are none."""
        samples = Samples.of(given[0], source.signature(options).inputs, *given[1:])
        taken = iter(samples)
        first = next(taken, None)
        if first is None:
            raise no_samples()
        return SampleRuns(first, taken, samples.count)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays of the first sample."""
        feed = self.first.feed.items()
        return {name: np.shape(x) for name, x in feed if isinstance(x, np.ndarray)}

    def run(self, model: CompiledModel, on_sample: OnSample | None) -> int:
        """Run a model on all of them, once; how many there were."""
        done = 0
        for done, sample in enumerate(chain([self.first], self.rest), 1):
            _run(model, sample)
            if on_sample is not None:
                on_sample(done, self.count)
        return done


def _run(model: CompiledModel, sample: Sample) -> None:
    try:
        model.run(None, sample.feed)
    except AfterglowError as error:
        at = f"in {sample.label}"
        error.where = f"{error.where}, {at}" if error.where else at
        raise
