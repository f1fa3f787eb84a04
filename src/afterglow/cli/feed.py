"""Input arrays for a model: from files, and random where none is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from afterglow.cli.arrays import as_declared, read_array, read_arrays
from afterglow.cli.request import Request, how_to_bind
from afterglow.driver.dims import check_names
from afterglow.driver.options import Options
from afterglow.driver.random_arrays import random_array
from afterglow.driver.ranges import Ranges
from afterglow.frontends.definition.binding import NamedExtents
from afterglow.runtime import TensorInfo
from afterglow.runtime.extents import check_extents
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.types import Array, DType
from afterglow.types.extent import bind_extent, dims_of, is_ranged
from afterglow.types.extent.text import read_extent

RANDOM = "random"


def takes_inputs(command: Callable[..., int]) -> Callable[..., int]:
    """Decorator that adds the options `--input` and `--seed`, the arguments of `build_feed`."""
    inputs = click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=FILE.npy|NAME=random|FILE.npz",
        help="Value of an input; inputs that are not given are random.",
    )
    seed = click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Seed of the random inputs.",
    )
    return inputs(seed(command))


class FreeInputError(UsageError):
    """An input has dynamic dimensions that are not bound."""


def build_feed(
    inputs: Sequence[TensorInfo],
    request: Request,
    given: Sequence[str],
    seed: int,
    known: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """An array for each input: from `--input`, or else known or random, of the bound shape.

    `inputs` are as the file declares them, before dimensions are bound. Where nothing tells the
    extent of a dimension with bounds, it is the largest.
    """
    options, ranges = request.options, request.dim_options.ranges
    check_names(options.dims, inputs)
    by_name = {info.name: info for info in inputs}
    arrays = {n: _fitting(by_name, n, x) for n, x in (known or {}).items() if n in by_name}
    arrays.update(_given(by_name, given))
    for name in options.shapes:
        if name not in by_name:
            raise _no_input(name, by_name)
    shapes = {name: tuple(shape) for name, shape in options.shapes.items()}
    shapes.update((name, array.shape) for name, array in arrays.items())
    extents = _extents(by_name, shapes, options.dims)
    random = np.random.default_rng(seed)
    for info in inputs:
        if info.name not in arrays:
            shape = shapes[info.name] if info.name in shapes else _bound(info, extents)
            arrays[info.name] = _random(info, shape, random)
        check_extents(info, arrays[info.name].shape, ranges)
    return {info.name: arrays[info.name] for info in inputs}


def compiled_for(
    inputs: Sequence[TensorInfo], request: Request, feed: Mapping[str, Array]
) -> Options:
    """The options to compile one program that takes a feed: for ranges where `--dim` gives them.

    If it keeps state, every dimension is given.
    """
    if request.options.state and request.dim_options.ranges:
        return request.options
    declared = {info.name: info.shape for info in inputs}
    ranges = Ranges(request.dim_options.ranges, grows=False)
    exact = {name: array.shape for name, array in feed.items()}
    shapes = ranges.find(declared, feed, lambda ranged: ranged) or exact
    return replace(request.options, shapes=shapes, dims={})


def _random(info: TensorInfo, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """A random array for an input, if there is memory for it."""
    dtype = _dtype(info)
    try:
        return random_array(dtype, shape, random)
    except (MemoryError, ValueError):  # NumPy's error for more bytes than an address can count
        size = math.prod(shape) * dtype.itemsize
        raise UsageError(
            f"input '{info}' of shape {shape} takes {size:,} bytes, more than there is memory for",
            help="give smaller extents",
        ) from None


def _given(inputs: Mapping[str, TensorInfo], given: Sequence[str]) -> dict[str, Array]:
    """The arrays given on the command line, with the element types of the model."""
    found: dict[str, Array] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals and (name in inputs or not name):
            raise UsageError(
                f"--input {text or repr(text)} does not name a file",
                help=f"write --input {name or 'NAME'}=FILE.npy, or FILE.npz for all of them",
            )
        if not equals:
            found.update(read_arrays(Path(text)))
        elif file != RANDOM:
            found[name] = read_array(Path(file))
        elif name not in inputs:
            raise _no_input(name, inputs)
    return {name: _fitting(inputs, name, array) for name, array in found.items()}


def _fitting(inputs: Mapping[str, TensorInfo], name: str, array: Array) -> Array:
    if name not in inputs:
        raise _no_input(name, inputs)
    wanted = _dtype(inputs[name])
    array = as_declared(array, wanted)
    if array.dtype != wanted.numpy:
        raise UsageError(
            f"input {name!r} has element type {wanted.numpy}, but the file has {array.dtype}",
            help=f"convert it: numpy.save(file, array.astype({wanted.numpy.name!r}))",
        )
    return array


def _dtype(info: TensorInfo) -> DType:
    if info.dtype is None:
        raise UsageError(
            f"input {info.name!r} is a sequence or an optional",
            help="run the model from Python: the command line accepts only tensors",
        )
    return info.dtype


def _no_input(name: str, inputs: Mapping[str, TensorInfo]) -> UsageError:
    return UsageError(f"the model has no input {name!r}", help=f"it has {', '.join(inputs)}")


def _extents(
    inputs: Mapping[str, TensorInfo],
    shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int],
) -> dict[str, int]:
    """The extents of named dimensions: given, implied by the given shapes, or else the largest."""
    named = NamedExtents({name: extent for name, extent in dims.items() if not is_ranged(extent)})
    for name, shape in shapes.items():
        declared = inputs[name].shape if name in inputs else None
        for problem in named.learn(name, declared or (), shape):
            raise UsageError(problem)
    known = {dim.name: dim.high for dim in dims_of(*dims.values())} | named.extents
    return {**{name: bind_extent(extent, known) for name, extent in dims.items()}, **known}


def _bound(info: TensorInfo, extents: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an input with its named dimensions bound; raises if some are not."""
    if info.shape is not None:
        info = replace(info, shape=tuple(_number(extent, extents) for extent in info.shape))
    if not info.is_exact:
        raise FreeInputError(f"input '{info}' has dynamic dimensions", help=how_to_bind([info]))
    return info.exact_shape


def _number(extent: int | str | None, extents: Mapping[str, int]) -> int | str | None:
    """An extent, as a number if it is a known name or an expression over such names."""
    if isinstance(extent, str):
        with suppress(AfterglowError):
            return extents[extent] if extent in extents else read_extent(extent, extents)
    return extent
