"""Which nodes of a function compute with floats of 16 bits, and why others stay in f32.

Every op on 16-bit floats computes in f32 and rounds its result once: what matters is whether a
result may be rounded, and whether it fits the range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from afterglow.graph import Constant, Function, Node, Value
from afterglow.graph.builder import infer_types
from afterglow.ops.elementwise import Mul
from afterglow.ops.indexing import Gather
from afterglow.quantization.named_nodes import check_named, is_named
from afterglow.support.errors import TypeRuleError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType
from afterglow.types.dtype import f32

PRODUCTS = frozenset({"conv", "conv_transpose", "matmul", "stored_matmul", "attention"})
"""Ops for which 16 bits pay: those around them follow."""
FOLLOWERS = frozenset(
    {
        *("add", "sub", "mul", "div", "max", "min", "neg", "abs", "sign", "floor", "ceil", "round"),
        *("relu", "leaky_relu", "prelu", "elu", "selu", "celu", "thresholded_relu", "shrink"),
        *("sigmoid", "hard_sigmoid", "swish", "hard_swish", "mish", "gelu", "erf", "tanh"),
        *("softsign", "clip", "max_pool", "avg_pool", "reduce_max", "reduce_min", "resize"),
    }
)
"""Ops that compute in 16 bits next to others that do: their results are no larger than operands,
or as large as those of one addition or multiplication. So do ops that only move elements."""
WEIGHTS_ONLY = frozenset({"rnn", "gru", "lstm"})
"""Ops whose weights are stored in 16 bits while states, which add up over time, stay in f32."""
BY_DEFAULT = PRODUCTS | FOLLOWERS | WEIGHTS_ONLY
"""The allow list. All else stays in f32: sums and means, powers, exponentials and logarithms,
softmax and norms, whose results leave the range of 16 bits or need their precision."""
MOST_ERROR = 2.0**-7
"""The norm of the rounding error of a weight, relative to that of the weight, up to which it is
stored in 16 bits: bf16 comes within half of that, f16 above 6e-5 within a tenth."""


@dataclass(frozen=True)
class MixedPrecision:
    """What a user says about floats of 16 bits.

    Args:
        keep: what stays in f32: names of nodes of the model, patterns with stars, or ops.
        allow: ops that compute in 16 bits although they do not by default.
        reaches: the largest magnitudes that were observed, by the names of values.
    """

    keep: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    reaches: Mapping[str, float] = field(default_factory=dict)

    def keeps(self, node: Node) -> bool:
        """Whether the user wants a node in f32."""
        return is_named(node, self.keep) or _is_op(node, self.keep)

    def allows(self, node: Node) -> bool:
        """Whether a node may compute in 16 bits, as far as its op goes."""
        if _is_op(node, self.allow):
            return True
        squares = isinstance(node.op, Mul) and node.operands[0] is node.operands[1]
        return (node.op.moves_only or node.op.mnemonic in BY_DEFAULT) and not squares

    def check(self, nodes: Sequence[Node]) -> None:
        """Raise if a name fits none of the nodes and none of their ops."""
        ops = {_plain(node.op.mnemonic): node.op.mnemonic for node in nodes}
        check_named([name for name in self.keep if _plain(name) not in ops], nodes, "node or op")
        for name in self.allow:
            if _plain(name) not in ops:
                raise UsageError(
                    f"no op of the model is called {name!r}",
                    help=f"there are {', '.join(sorted(ops.values()))}",
                )


@dataclass
class Halves:
    """The nodes that compute in 16 bits, and the reasons why others on f32 do not."""

    nodes: set[Node] = field(default_factory=set)
    weights: set[Node] = field(default_factory=set)
    """Those of which only weights are stored in 16 bits."""
    kept: dict[Node, str] = field(default_factory=dict)


def choose_halves(function: Function, dtype: DType, wanted: MixedPrecision) -> Halves:
    """Choose the nodes of a function that compute in a 16-bit type.

    These are products, and followers and moves that are connected to them; not what follows the
    last product, since the outputs are f32.
    """
    found = Halves()
    may: set[Node] = set()
    for node in function.nodes:
        if not any(value.type.dtype is f32 for value in (*node.given, *node.results)):
            continue
        reason = _reason_to_keep(node, dtype, wanted)
        if reason is not None:
            found.kept[node] = reason
        elif node.op.mnemonic in WEIGHTS_ONLY:
            found.weights.add(node)
        else:
            may.add(node)
    leading = _leading_to_products(function, may)
    connected = _connected(may & leading)
    found.nodes = connected - _read_in_f32(function, connected)
    for node in connected - found.nodes:
        found.kept[node] = "only ops in f32 read it"
    for node in may - connected:
        found.kept[node] = "no product follows" if node not in leading else "between values in f32"
    order = {node: place for place, node in enumerate(function.nodes)}
    found.kept = dict(sorted(found.kept.items(), key=lambda item: order[item[0]]))
    return found


def _reason_to_keep(node: Node, dtype: DType, wanted: MixedPrecision) -> str | None:
    """Why a node must stay in f32; None if it may compute in a 16-bit type."""
    if wanted.keeps(node):
        return "as asked"
    if not wanted.allows(node):
        return f"{node.op.mnemonic} needs the range or the precision of f32"
    if node.op.mnemonic not in WEIGHTS_ONLY and not _takes(node, dtype):
        return f"{node.op.mnemonic} takes no {dtype}"
    return next(_overflows(node, dtype, wanted.reaches), None) or next(
        _lost_in_constants(node, dtype), None
    )


def _overflows(node: Node, dtype: DType, reaches: Mapping[str, float]) -> Iterator[str]:
    """The values that a node reads or computes of which too large numbers were observed."""
    for value in (*node.given, *node.results):
        reach = reaches.get(value.name, 0.0)
        if value.type.dtype is f32 and reach > _largest(dtype):
            yield f"%{value.name} reaches {reach:.3g}, beyond {_largest(dtype):.6g}"


def _largest(dtype: DType) -> float:
    return dtype.finite_limits[1]


def _takes(node: Node, dtype: DType) -> bool:
    """Whether an op computes its results in a type, given its operands in that type."""

    def narrow(value: Value) -> Value:
        own = value.type.dtype
        return Value("", value.type.with_dtype(dtype if own is f32 else own))

    try:
        made = infer_types(node.op, tuple(None if v is None else narrow(v) for v in node.operands))
    except TypeRuleError:
        return False
    return made == tuple(narrow(result).type for result in node.results)


def _lost_in_constants(node: Node, dtype: DType) -> Iterator[str]:
    """What the constants that a node reads would lose in a type."""
    is_weight = node.op.mnemonic in PRODUCTS | WEIGHTS_ONLY or node.op.moves_only
    for value in node.given:
        if isinstance(value, Constant) and value.type.dtype is f32 and value.type.size:
            lost = _lost(value.data, dtype, is_weight=is_weight)
            if lost is not None:
                yield f"constant @{value.name} has {lost}"


def _lost(data: Array, dtype: DType, *, is_weight: bool) -> str | None:
    """What an array cannot keep in a type: numbers too large, zero instead of numbers, precision.

    Of the many numbers of a weight, single ones may become zero.
    """
    with np.errstate(over="ignore"):
        rounded = data.astype(dtype.numpy).astype(np.float32)
    overflown = np.isinf(rounded) & np.isfinite(data)
    if overflown.any():
        return f"{np.abs(data[overflown]).max():.3g}, beyond {_largest(dtype):.6g}"
    vanished = (rounded == 0) & (data != 0)
    if vanished.any() and not is_weight:
        return f"{np.abs(data[vanished]).max():.3g}, which would be zero"
    finite = np.where(np.isfinite(data), data, 0).astype(np.float64)
    error = np.linalg.norm(np.where(np.isfinite(data), rounded, 0) - finite)
    if error > MOST_ERROR * np.linalg.norm(finite):
        return f"numbers around {np.abs(finite).max():.3g}, too small for {dtype}"
    return None


def _leading_to_products(function: Function, may: set[Node]) -> set[Node]:
    """The nodes whose results reach a product that may compute in 16 bits, or are one."""
    found: set[Node] = set()
    for node in reversed(list(function.nodes)):
        is_anchor = node in may and _is_anchor(node)
        if is_anchor or any(user in found for result in node.results for user in result.users):
            found.add(node)
    return found


def _is_anchor(node: Node) -> bool:
    """Whether 16 bits pay for a node by itself: a product, or a look-up in a constant table."""
    if node.op.mnemonic in PRODUCTS:
        return True
    return isinstance(node.op, Gather) and isinstance(node.operands[0], Constant)


def _connected(may: set[Node]) -> set[Node]:
    """Products, and nodes that are next to products or to such nodes."""
    found = {node for node in may if _is_anchor(node)}
    waiting = list(found)
    while waiting:
        node = waiting.pop()
        above = [n for n in _producers(node) if n in may and not _shrinks(n)]
        below = [n for r in node.results if r.type.dtype is f32 for n in r.users if n in may]
        new = {*above, *below} - found
        found |= new
        waiting.extend(new)
    return found


def _read_in_f32(function: Function, nodes: set[Node]) -> set[Node]:
    """Followers among nodes whose results are read only by nodes that compute in f32.

    They are the sums of residual branches before norms: rounding them would save no memory, since
    they are stored in f32, and the errors would add up from layer to layer.
    """
    found: set[Node] = set()
    for node in reversed(list(function.nodes)):
        if node not in nodes or _is_anchor(node) or node.op.moves_only:
            continue
        readers = [user for result in node.results for user in result.users]
        if readers and not any(user in nodes and user not in found for user in readers):
            found.add(node)
    return found


def _producers(node: Node) -> Iterable[Node]:
    """The nodes that compute what a node reads in f32."""
    values = (value for value in node.given if value.type.dtype is f32)
    return (value.producer for value in values if value.producer is not None)


def _shrinks(node: Node) -> bool:
    """Whether a node moves a part of its operand: then it is less work to convert its result."""
    if not node.op.moves_only:
        return False
    read = [v.type.size for v in node.given if v.type.dtype is f32 and not isinstance(v, Constant)]
    return any(size > node.results[0].type.size for size in read)


def _is_op(node: Node, names: Iterable[str]) -> bool:
    return _plain(node.op.mnemonic) in map(_plain, names)


def _plain(op: str) -> str:
    """The name of an op without what notations differ in: ReduceMean and reduce_mean are one."""
    return op.replace("_", "").lower()
