"""What a routine is: its types, and what it computes of encodings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afterglow.backends.cpu.llvm.emitter import Emitter, Value
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType

Compute = Callable[[Emitter, list[Value]], Sequence[Value]]
"""From the arguments to the results, of which there are one or two."""


@dataclass(frozen=True)
class Routine:
    """A function by the types of its parameters and of its first result.

    What it computes is given floats as the integers that encode them, and gives them so.
    """

    parameters: tuple[DType, ...]
    result: DType
    compute: Compute
