"""Types of values whose shapes are not known until the model runs.

Such values flow between host nodes and compiled partitions. No op of the graph IR takes one: an op
that asks for the shape of one gets an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import Enum
from typing import NoReturn, TypeAlias

from afterglow.support.errors import TypeRuleError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType
from afterglow.types.tensor import TensorType

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*\Z")


@dataclass(frozen=True)
class DynamicExtent:
    """An extent that is known when the model runs; `name` is the dimension's, if it has one."""

    name: str = ""

    def __str__(self) -> str:
        if not self.name:
            return "?"
        return self.name if _WORD.match(self.name) else json.dumps(self.name)


Extent: TypeAlias = "int | DynamicExtent"
"""How long an axis is."""

UNKNOWN = DynamicExtent()
"""An extent without a name: only data decide it."""


class DynamicType(TensorType):
    """The type of a tensor with a known element type and extents of which some are not known.

    Without extents, not even the rank is known. Asking for the exact shape is an error.
    """

    def __init__(self, dtype: DType, extents: Sequence[Extent] | None) -> None:
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "extents", None if extents is None else tuple(extents))
        object.__setattr__(self, "quantization", None)

    extents: tuple[Extent, ...] | None

    @property
    def shape(self) -> NoReturn:
        """Refuse: some of it is not known."""
        raise TypeRuleError(f"the shape of {self} is known only when the model runs")

    @property
    def rank(self) -> int:
        """The number of axes, if that is known."""
        return self.shape if self.extents is None else len(self.extents)

    def __str__(self) -> str:
        extents = ("*",) if self.extents is None else self.extents
        return f"{self.dtype}[{', '.join(map(str, extents))}]"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DynamicType):
            return NotImplemented
        return (self.dtype, self.extents) == (other.dtype, other.extents)

    def __hash__(self) -> int:
        return hash((self.dtype, self.extents))


class HostKind(Enum):
    """What a value is that only the host knows."""

    ANY = "?"
    SEQUENCE = "sequence"
    OPTIONAL = "optional"
    MAP = "map"


class HostType(TensorType):
    """The type of a value that only the host knows: not a tensor, or one of an unknown type."""

    def __init__(self, kind: HostKind) -> None:
        object.__setattr__(self, "kind", kind)

    kind: HostKind

    def _refuse(self) -> NoReturn:
        raise TypeRuleError(f"a value of type {self} is known only to the host")

    @property
    def dtype(self) -> NoReturn:
        """Refuse: it is not known."""
        self._refuse()

    @property
    def shape(self) -> NoReturn:
        """Refuse: it is not known."""
        self._refuse()

    def __str__(self) -> str:
        return self.kind.value

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HostType):
            return NotImplemented
        return self.kind is other.kind

    def __hash__(self) -> int:
        return hash(self.kind)


def tensor_type(dtype: DType, extents: Sequence[Extent] | None) -> TensorType:
    """The type of a tensor: an exact one if all of its extents are numbers."""
    numbers = None if extents is None else [e for e in extents if isinstance(e, int)]
    if extents is None or numbers is None or len(numbers) < len(extents):
        return DynamicType(dtype, extents)
    return TensorType(dtype, tuple(numbers))


def is_exact(type: TensorType) -> bool:
    """Whether a type says all that there is to know, as those of compiled values do."""
    return not isinstance(type, (DynamicType, HostType))
