"""Arrays of the caller's that outputs are written into: checked, or copied to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from afterglow.runtime.foreign_arrays import is_foreign, shared_array
from afterglow.runtime.signature import TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import Array


def targets_of(infos: Sequence[TensorInfo], given: Any) -> dict[int, Array]:
    """The arrays that a caller gives for outputs, by the places of these.

    Given is an array, a sequence of one for each output, or a dictionary by the names of outputs.
    """
    names = [info.name for info in infos]
    targets = {
        names.index(name): _checked(infos[names.index(name)], array)
        for name, array in _by_name(names, given).items()
    }
    for one, other in combinations(targets, 2):
        if np.may_share_memory(targets[one], targets[other]):
            raise UsageError(
                f"outputs {names[one]!r} and {names[other]!r} are to be written to the same memory",
                help="give each an array of its own",
            )
    return targets


def _by_name(names: Sequence[str], given: Any) -> Mapping[str, Any]:
    has = f"it has {', '.join(names)}"
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise UsageError(f"the model has no output {unknown[0]!r}", help=has)
        return given
    arrays = [*given] if isinstance(given, (list, tuple)) else [given]
    if len(arrays) != len(names):
        raise UsageError(
            f"the model gives {len(names)} outputs, got {len(arrays)} arrays to write them to",
            help=f"{has}; a dictionary gives arrays for some of them",
        )
    return dict(zip(names, arrays, strict=True))


def _checked(info: TensorInfo, given: Any) -> Array:
    """The array itself, in whose memory an output of this kind can be written."""
    array = shared_array(given) if is_foreign(given) else given
    if not isinstance(array, np.ndarray):
        raise _unfit(info.name, f"a {type(array).__name__}, not an array")
    if info.dtype is not None and array.dtype != info.dtype.numpy:
        raise _unfit(info.name, f"an array of {array.dtype}, not of {info.dtype.numpy}")
    if not array.flags.writeable:
        raise _unfit(info.name, "an array that cannot be written")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise _unfit(info.name, "an array whose elements do not lie in order")
    return array


def _unfit(name: str, what: str) -> UsageError:
    return UsageError(
        f"output {name!r} cannot be written to {what}",
        help="give a contiguous array of the element type and shape of the output",
    )


def check_shape(name: str, target: Array, shape: Sequence[int]) -> None:
    """Raise if the array for an output has another shape than the output."""
    if target.shape != tuple(shape):
        raise _unfit(name, f"an array of shape {target.shape}: it has shape {tuple(shape)}")


def overlap(targets: Iterable[Array], inputs: Sequence[Array]) -> bool:
    """Whether an array to write may share memory with one to read."""
    return any(np.may_share_memory(target, array) for target in targets for array in inputs)


def copied_into(
    targets: Mapping[int, Array], outputs: Sequence[Any], names: Sequence[str]
) -> list[Any]:
    """The outputs, those at the places of `targets` copied into these arrays."""
    for place, target in targets.items():
        output = outputs[place]
        if not isinstance(output, np.ndarray):
            raise UsageError(
                f"output {names[place]!r} is a {type(output).__name__}, not a tensor",
                help="give arrays for the other outputs, by name",
            )
        if output.dtype != target.dtype:  # of an output whose element type is not declared
            raise _unfit(names[place], f"an array of {target.dtype}, not of {output.dtype}")
        check_shape(names[place], target, output.shape)
        target[...] = output
    return [targets.get(place, output) for place, output in enumerate(outputs)]
