"""The text of one function while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from afterglow.backends.cpu.target import Target
from afterglow.support.errors import InternalError
from afterglow.types.dtype import DType, i32, i64
from afterglow.types.extent import Atom, Dim, RangedExtent

if TYPE_CHECKING:
    from afterglow.backends.cpu.llvm.emitter.value import Value


class Code:
    """Lines of LLVM text, names that are unique, and the block that is being written."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.block = "entry"
        self.scratch_lines: list[str] = []
        """Declarations of stack memory, which stand before everything else."""
        self.entry_lines: list[str] = []
        """What is computed once, before everything else."""
        self.entry_names: set[str] = set()
        """Results of that."""
        self.lines: list[str] = []
        self.extents: dict[RangedExtent | Atom, Value] = {}
        """The values of ranged extents, and of what they are made of, known in the function."""
        self.dim_value: Callable[[Dim], Value] = _no_dims
        """What gives the extent of a dimension in the run at hand."""
        self.loops = 0
        """How many loops the function has so far."""
        self._names = 0

    @property
    def index_type(self) -> DType:
        """The integer that counts elements: as wide as a pointer."""
        return i64 if self.target.pointer_bits == 64 else i32

    def fresh(self, hint: str) -> str:
        """A name that nothing else in the function has."""
        self._names += 1
        return f"{hint}{self._names}"

    def define(self, text: str, hint: str = "v") -> str:
        """Write an instruction that has a result, and return the result's name."""
        self._names += 1
        name = f"%{hint}{self._names}"
        lines = self.lines
        lines.append(f"  {name} = {text}")
        if lines is self.entry_lines:
            self.entry_names.add(name)
        return name

    def perform(self, text: str) -> None:
        """Write an instruction that has no result."""
        self.lines.append(f"  {text}")

    def extent_value(self, extent: RangedExtent, dtype: DType) -> Value:
        """A ranged extent in the run at hand, as a number of a type."""
        raise NotImplementedError

    @contextmanager
    def at_entry(self) -> Iterator[None]:
        """Write where the function begins, so that what follows is known everywhere in it."""
        lines, block = self.lines, self.block
        self.lines, self.block = self.entry_lines, "entry"
        yield
        self.lines, self.block = lines, block

    def reserve(self) -> int:
        """Leave room for a line that is known only later; `fill` writes it."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill(self, place: int, text: str) -> None:
        """Write the line that was left out."""
        self.lines[place] = f"  {text}"

    def start_block(self, label: str) -> None:
        """Go on in a new block."""
        self.lines.append(f"{label}:")
        self.block = label


def _no_dims(dim: Dim) -> Value:
    raise InternalError(f"a function that is not given extents asks for that of {dim}")
