"""Programs with inputs, as one file: the text of a module, its constants, and arrays."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import afterglow.ops  # noqa: F401  fills the catalogue, which texts are read with
from afterglow.graph import Builder, Function, Module, Op, parse_module, print_module
from afterglow.types import TensorType
from afterglow.types.dtype import DTYPES, DType


@dataclass(frozen=True)
class ProgramExample:
    """A module and what it is called with: arrays by name, or words that stand for worse."""

    text: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    odd: Mapping[str, str] = field(default_factory=dict)
    """Inputs that are no arrays: a name in `hostile_calls.ODD`."""

    def module(self) -> Module:
        """The module, parsed."""
        return parse_module(self.text, dict(self.constants))

    def packed(self) -> bytes:
        """The example as the bytes of an .npz file, which `unpacked` reads."""
        room = io.BytesIO()
        arrays = {
            **{f"c {name}": _plain(array) for name, array in self.constants.items()},
            **{f"x {name}": _plain(array) for name, array in self.inputs.items()},
        }
        types = {key: str(kind) for key, (_, kind) in arrays.items()}
        about = json.dumps({"text": self.text, "odd": dict(self.odd), "types": types})
        np.savez_compressed(room, about=about, **{key: array for key, (array, _) in arrays.items()})
        return room.getvalue()


def unpacked(data: bytes) -> ProgramExample:
    """Read the bytes of an example."""
    with np.load(io.BytesIO(data)) as stored:
        about = json.loads(str(stored["about"]))
        arrays = {key: _restored(stored[key], kind) for key, kind in about["types"].items()}
    constants = {key[2:]: array for key, array in arrays.items() if key.startswith("c ")}
    inputs = {key[2:]: array for key, array in arrays.items() if key.startswith("x ")}
    return ProgramExample(about["text"], constants, inputs, about["odd"])


def module_of(op: Op, types: tuple[TensorType | None, ...]) -> Module:
    """A module of one op, with an input for each operand: x0, x1 and so on."""
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(types)]
    for index, value in enumerate(Builder(f).emit_all(op, *operands)):
        f.output(f"y{index}", value)
    return f.module


def example_of(module: Module, inputs: Mapping[str, Any], **odd: str) -> ProgramExample:
    """An example of a module that was built."""
    constants = {name: constant.data for name, constant in module.constants.items()}
    return ProgramExample(print_module(module), constants, inputs, odd)


def _plain(array: Any) -> tuple[Any, str]:
    """The array as NumPy alone can store it, and the name of its element type."""
    kind = DType.of(array.dtype)
    if array.dtype == object:
        return np.array(array.tolist(), dtype=np.str_).reshape(array.shape), kind.name
    if array.dtype.kind not in "biufc" or array.dtype.isbuiltin != 1:
        return array.view(np.dtype(f"u{array.dtype.itemsize}")), kind.name
    return array, ""


def _restored(array: Any, kind: str) -> Any:
    if not kind:
        return array
    wanted = DTYPES[kind].numpy
    return array.astype(object) if wanted.kind == "O" else array.view(wanted)
