"""Nodes that a front end leaves as its models have them, because their types are not exact yet.

Such a node names an op of its dialect, say ONNX's `NonZero`. Once the types of its operands are
exact, and the values that shapes depend on are known, the dialect expands it into ops of the graph
IR. Until then it is a host node: the host runs it by its definition, or it waits.
"""

from __future__ import annotations

from typing import Any, ClassVar

from afterglow.graph.op import Op
from afterglow.graph.subgraph import Subgraph
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType


@dataclass(frozen=True)
class HostOp(Op):
    """An op of a dialect, by its name there, with attributes as plain values.

    `results` tells for each result of the dialect's op whether the node has it. `bodies` names the
    attributes that are `functions`; an empty name stands for the function by which the model itself
    defines the op. Operands are those of the dialect's op, then the `tensors`, which are attributes
    of these names, then for each body as many outer values as `captured` says, then `named` values
    to which attributes refer by name.
    """

    dialect: str
    domain: str
    name: str
    version: int
    overload: str = ""
    results: tuple[bool, ...] = (True,)
    attributes: tuple[Any, ...] = ()
    tensors: tuple[str, ...] = ()
    captured: tuple[int, ...] = ()
    bodies: tuple[str, ...] = ()
    functions: tuple[Subgraph, ...] = ()
    named: int = 0

    mnemonic: ClassVar[str] = "host"
    pure: ClassVar[bool] = False
    states_types: ClassVar[bool] = True

    def infer(self, *operands: TensorType | None) -> tuple[TensorType, ...]:
        """Refuse: what comes out is only known when it runs."""
        raise NotImplementedError("the types of a host node's results are stated, not inferred")

    def operand_counts(self, total: int) -> tuple[int, int, int]:
        """Where the dialect's own operands, the tensors, and the captured values end."""
        third = total - self.named
        second = third - sum(self.captured)
        return second - len(self.tensors), second, third


BOUNDARY = HostOp("", "", "boundary", 0)
"""Stands for a boundary value, which an earlier partition computes."""
