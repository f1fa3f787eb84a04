"""The contract between a generator and a language model, and the programs that fulfil it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from afterglow.runtime import CompiledModel
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceBuffer
from afterglow.support.errors import UsageError
from afterglow.types import Array

INPUTS = ("tokens", "positions", "sequences", "wanted")
"""The inputs of a program that keeps its caches as state."""


@runtime_checkable
class Decoder(Protocol):
    """A language model with caches for several sequences.

    What it has seen of a sequence is decided by positions alone: a step at a smaller position than
    the last one goes on from there, and what was behind is forgotten.
    """

    @property
    def vocabulary(self) -> int:
        """The number of tokens there are."""

    @property
    def context(self) -> int:
        """The most tokens that a sequence may have."""

    @property
    def sequences(self) -> int:
        """The number of sequences that have a cache."""

    @property
    def chunk(self) -> int:
        """The most tokens that a step takes."""

    @property
    def most_wanted(self) -> int:
        """The most rows of logits that a step gives."""

    def step(self, tokens: Array, positions: Array, sequences: Array, wanted: Array) -> Array:
        """The logits behind some of the tokens, whose keys and values go into the caches.

        All arrays are i32[tokens], but `wanted`, which lists the rows of the others whose logits
        are returned, as f32[wanted, vocabulary]. The tokens of a sequence come in order, at
        positions that follow each other and what the sequence has so far.
        """

    def copy(self, source: int, target: int, length: int) -> None:
        """Let a sequence have the first tokens of another one."""

    def read(self, sequence: int, length: int) -> dict[str, Array]:
        """The caches of the first tokens of a sequence, by name."""

    def write(self, sequence: int, arrays: Mapping[str, Array]) -> None:
        """Let a sequence have caches that were read so."""


class CachedDecoder:
    """A compiled program whose inputs are tokens of any sequences, and whose state are caches."""

    def __init__(self, model: CompiledModel) -> None:
        self.model = model
        self._caches = {
            name: state
            for name, state in model.compiled.states.items()
            if name.startswith("cache.")
        }
        self.sequences, _, self.context = next(iter(self._caches.values())).type.shape[:3]
        vocabulary = (model.outputs[0].shape or (0,))[-1]
        assert isinstance(vocabulary, int), "the extent of logits is known"
        self.vocabulary = vocabulary
        self.chunk = model.dims.get("tokens", (1, 1, 1))[1]
        self.most_wanted = model.dims.get("wanted", (1, 1, 1))[1]

    @staticmethod
    def takes(model: CompiledModel) -> bool:
        """Whether a model is such a program."""
        return {info.name for info in model.inputs} == set(INPUTS) and any(
            name.startswith("cache.") for name in model.compiled.states
        )

    def step(self, tokens: Array, positions: Array, sequences: Array, wanted: Array) -> Array:
        """The logits behind some of the tokens: see `Decoder`."""
        arrays = (tokens, positions, sequences, wanted)
        logits: Array = self.model.run(None, dict(zip(INPUTS, arrays, strict=True)))[0]
        return logits

    def copy(self, source: int, target: int, length: int) -> None:
        """Let a sequence have the first tokens of another one."""
        for cache in self._caches.values():
            with _changing(cache) as array:
                array[target, :, :length] = array[source, :, :length]

    def read(self, sequence: int, length: int) -> dict[str, Array]:
        """The caches of the first tokens of a sequence, by name."""
        return {
            name: memory_of(cache)[sequence, :, :length].copy()
            for name, cache in self._caches.items()
        }

    def write(self, sequence: int, arrays: Mapping[str, Array]) -> None:
        """Let a sequence have caches that were read so."""
        for name, cache in self._caches.items():
            with _changing(cache) as array:
                array[sequence, :, : arrays[name].shape[1]] = arrays[name]


def memory_of(buffer: DeviceBuffer) -> Array:
    """The elements of a buffer: its memory if that is the host's, otherwise a copy."""
    return buffer.array if isinstance(buffer, HostBuffer) else buffer.read().result()


@contextmanager
def _changing(buffer: DeviceBuffer) -> Iterator[Array]:
    """The elements of a buffer, to be changed."""
    array = memory_of(buffer)
    yield array
    if not isinstance(buffer, HostBuffer):
        buffer.write(array).result()


def check_caches(arrays: Mapping[str, Array], decoder: Decoder, length: int) -> None:
    """Refuse caches that are not of this model."""
    own = decoder.read(0, length)
    alike = own.keys() == arrays.keys() and all(
        (arrays[name].dtype, arrays[name].shape) == (mine.dtype, mine.shape)
        for name, mine in own.items()
    )
    if not alike:
        raise UsageError(
            "the prefix is of another model: its caches have other names, types or shapes",
            help="save it again with this model and the same cache type",
        )
