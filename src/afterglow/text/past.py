"""ONNX language models with their past as state, as decoders.

The forms in use: `past_key_values` as inputs and `present` as outputs, longer by what is new, as
PyTorch and optimum export and as onnxruntime-genai builds; and caches of a fixed size that are
written at an index, as `TensorScatter` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from itertools import groupby

import numpy as np

from afterglow.runtime import CompiledModel, TensorInfo
from afterglow.runtime.buffers import host_buffer
from afterglow.text.past_form import no_language_model, role_of
from afterglow.types import Array, Port
from afterglow.types.extent import largest


class PastDecoder:
    """A program for one sequence: each sequence has a copy of its state, and runs on its own."""

    def __init__(self, model: CompiledModel, sequences: int = 1) -> None:
        roles = {role_of(info.name): info for info in model.inputs}
        logits = _logits(model)
        if not model.compiled.states or None in roles or "tokens" not in roles or logits is None:
            raise no_language_model(model.inputs, model.outputs)
        self._roles = {role: info for role, info in roles.items() if role is not None}
        self._output = [info.name for info in model.outputs].index(logits.name)
        self._ports = {port.name: port for port in model.compiled.interface.states}
        self.models = [model, *(deepcopy(model) for _ in range(sequences - 1))]
        self.sequences = sequences
        self.vocabulary = int((logits.shape or (0,))[-1] or 0)
        self.context = min(map(_room, self._ports.values()))
        taken = _most(model, (roles["tokens"].shape or (1,))[-1])
        self.chunk = min(taken, self.context)
        has_all_rows = len(logits.shape or ()) == 3 and (logits.shape or ())[1] != 1
        self.most_wanted = self.chunk if has_all_rows or self.chunk == 1 else 1

    def step(self, tokens: Array, positions: Array, sequences: Array, wanted: Array) -> Array:
        """The logits behind some of the tokens: see `Decoder`."""
        found: dict[int, Array] = {}
        asked, row = set(wanted.tolist()), 0
        for sequence, group in groupby(sequences.tolist()):
            count = len(list(group))
            rows = range(row, row + count)
            logits = self._run(sequence, tokens[row : row + count], int(positions[row]))
            found.update(
                (each, logits[each - rows.stop]) for each in rows if each in asked
            )  # from the end: some models give only the last row
            row += count
        return np.stack([found[each] for each in wanted.tolist()])

    def _run(self, sequence: int, tokens: Array, start: int) -> Array:
        model, end = self.models[sequence], start + len(tokens)
        for name, port in self._ports.items():
            if port.level is not None:
                host_buffer(model.compiled.states[name]).filled = start
        values: dict[str, Array | int] = {
            "tokens": tokens,
            "positions": np.arange(start, end),
            "start": start,
            "length": end,
            "last": end - 1,
        }
        feed = {
            info.name: self._mask(info, end) if role == "mask" else _shaped(info, values[role])
            for role, info in self._roles.items()
        }
        logits = model.run(None, feed)[self._output]
        return np.asarray(logits, np.float32).reshape(-1, self.vocabulary)

    def _mask(self, info: TensorInfo, end: int) -> Array:
        """Ones for all tokens so far, then zeros if it is as long as the caches."""
        extent = (info.shape or ())[-1]
        mask = np.zeros((1, extent if isinstance(extent, int) else end), _dtype(info))
        mask[:, :end] = 1
        return mask

    def copy(self, source: int, target: int, length: int) -> None:
        """Let a sequence have the first tokens of another one."""
        self.write(target, self.read(source, length))

    def read(self, sequence: int, length: int) -> dict[str, Array]:
        """The caches of the first tokens of a sequence, by name."""
        states = self.models[sequence].compiled.states
        return {
            name: host_buffer(states[name]).array[..., :length, :].copy() for name in self._ports
        }

    def write(self, sequence: int, arrays: Mapping[str, Array]) -> None:
        """Let a sequence have caches that were read so."""
        states = self.models[sequence].compiled.states
        for name, array in arrays.items():
            host_buffer(states[name]).array[..., : array.shape[-2], :] = array


def _logits(model: CompiledModel) -> TensorInfo | None:
    """The output with the logits: the one of that name, or else the only one."""
    named = [info for info in model.outputs if info.name == "logits"] or [*model.outputs]
    info = named[0]
    is_right = len(named) == 1 and info.dtype is not None and info.dtype.is_float
    return info if is_right and info.shape and isinstance(info.shape[-1], int) else None


def _room(port: Port) -> int:
    """How many tokens a cache has room for; the axis before the last one is that of tokens."""
    return port.type.shape[-2] if port.level is None else largest(port.level.before) + 1


def _most(model: CompiledModel, extent: int | str | None) -> int:
    return extent if isinstance(extent, int) else model.dims[str(extent)][1]


def _dtype(info: TensorInfo) -> np.dtype[np.generic]:
    assert info.dtype is not None
    return np.dtype(info.dtype.numpy)


def _shaped(info: TensorInfo, value: Array | int) -> Array:
    """Numbers with as many axes as an input has."""
    array = np.asarray(value, _dtype(info))
    return array.reshape((1,) * (len(info.shape or ()) - array.ndim) + array.shape)
