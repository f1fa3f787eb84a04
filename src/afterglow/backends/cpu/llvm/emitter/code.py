"""The text of one function while it is being written."""

from __future__ import annotations

from afterglow.backends.cpu.target import Target
from afterglow.types.dtype import DType, i32, i64


class Code:
    """Lines of LLVM text, names that are unique, and the block that is being written."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.block = "entry"
        self.scratch_lines: list[str] = []
        """Declarations of stack memory, which stand before everything else."""
        self.lines: list[str] = []
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
        name = f"%{self.fresh(hint)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def perform(self, text: str) -> None:
        """Write an instruction that has no result."""
        self.lines.append(f"  {text}")

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
