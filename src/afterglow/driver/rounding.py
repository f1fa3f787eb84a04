"""Samples that weights are rounded by, as an option of a compilation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.driver.dims import DimOptions
from afterglow.driver.images import ImageSamples
from afterglow.driver.options import OnSample, Options
from afterglow.driver.samples import sample_files
from afterglow.support.digest import digest_of_bytes, digest_of_texts
from afterglow.support.lazy_dataclass import dataclass

if TYPE_CHECKING:  # a model from the cache needs none of it
    from afterglow.quantization.rounding import Rounding


def rounding_by(samples: Any, model: Any, options: Options, dim_options: DimOptions) -> Options:
    """Options with which the weights of a model are rounded by samples, if there are any."""
    if samples is None:
        return options
    if isinstance(samples, Iterator):
        samples = [*samples]  # they are read twice: for the key of the cache, and to run on
    return replace(options, rounding=RoundingSamples(model, options, dim_options, samples))


def with_changes(options: Options, **changes: Any) -> Options:
    """Other options, also for the runs that weights are rounded by."""
    changed, rounding = replace(options, **changes), options.rounding
    if rounding is None:
        return changed
    runs = replace(rounding.options, **changes)
    return replace(changed, rounding=replace(rounding, options=runs))


def watching_samples(options: Options, on_sample: OnSample) -> Options:
    """The same, with a callback for the runs that weights are rounded by."""
    rounding = options.rounding
    if rounding is None:
        return options
    return replace(options, rounding=replace(rounding, on_sample=on_sample))


@dataclass(frozen=True, eq=False)
class RoundingSamples:
    """A model, how it is compiled, and samples that its weights are rounded by.

    It is run on them when weights are first rounded: not if the compiled model is in the cache.
    """

    model: Any
    options: Options
    """How the model is compiled, but for the rounding."""
    dim_options: DimOptions
    given: Any
    """What `profile` takes as samples."""
    on_sample: OnSample | None = None

    @cached_property
    def digest(self) -> str:
        """What tells samples apart."""
        return digest_of_texts(_contents(self.given))

    @cached_property
    def rounding(self) -> Rounding:
        """Rounds the weights of the model."""
        # here, because the compiler runs the model on samples
        from afterglow.driver.sampled import sampled_rounding  # noqa: PLC0415

        return sampled_rounding(self)


def _contents(given: Any) -> Iterator[str]:
    """Texts that are equal for equal samples: digests of files and arrays, however nested."""
    if isinstance(given, ImageSamples):
        yield repr(given.options)
        yield from _contents(given.path)
    elif isinstance(given, (str, PathLike)):
        path = Path(given)
        for file in sample_files(path) if path.is_dir() else [path]:
            if file.is_file():  # anything else is refused when samples are read
                yield f"{file.name} {digest_of_bytes(file.read_bytes())}"
    elif isinstance(given, Mapping):
        for name, value in given.items():
            yield str(name)
            yield from _contents(value)
    elif isinstance(given, (np.ndarray, np.generic)) or not isinstance(given, Iterable):
        array = np.asarray(given)
        data = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        yield f"{array.dtype} {array.shape} {digest_of_bytes(data)}"
    else:
        yield "several"
        for one in given:
            yield from _contents(one)
