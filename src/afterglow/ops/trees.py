"""Ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum

import numpy as np

from afterglow.graph import Builder, Constant, Gradients, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import And, Div, Equal, Less, Max, Mul, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Iota
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import (
    require,
    require_dtype,
    require_float,
    require_rank,
    require_same_dtype,
    require_shape,
)
from afterglow.support.errors import IndexRangeError
from afterglow.types import Array, IndexRange, IndexRanges, TensorType
from afterglow.types.dtype import i64


class Aggregate(Enum):
    """What becomes of all votes for one target."""

    SUM = "sum"
    AVERAGE = "average"
    MIN = "min"
    MAX = "max"


class NodeKind(IntEnum):
    """How a node compares a feature with its threshold; a leaf does not."""

    LEAF = 0
    LESS_EQUAL = 1
    LESS = 2
    GREATER_EQUAL = 3
    GREATER = 4
    EQUAL = 5
    NOT_EQUAL = 6


NODE_FIELDS = ("kind", "feature", "if_true", "if_false", "if_missing")
"""What the columns of the table of nodes mean."""

_COMPARE: dict[NodeKind, Callable[[Array, Array], Array]] = {
    NodeKind.LESS_EQUAL: np.less_equal,
    NodeKind.LESS: np.less,
    NodeKind.GREATER_EQUAL: np.greater_equal,
    NodeKind.GREATER: np.greater,
    NodeKind.EQUAL: np.equal,
    NodeKind.NOT_EQUAL: np.not_equal,
}


@op("tree_ensemble")
class TreeEnsemble(Op):
    """Tree ensemble: for each row of x, the combined weights of the leaves reached in each tree.

    A row of `nodes` is a node: its kind, the feature that it looks at, the nodes that follow if
    the test holds and if it does not, and whether it holds for NaN. The third number of a leaf is
    its row in `votes` and `weights` instead: the targets that it votes for, or -1 to fill up, and
    by how much. A target without votes gets 0; an average is over all trees.
    """

    host = True
    targets: int
    aggregate: Aggregate = Aggregate.SUM

    def infer(
        self,
        x: TensorType,
        nodes: TensorType,
        thresholds: TensorType,
        roots: TensorType,
        votes: TensorType,
        weights: TensorType,
    ) -> TensorType:
        """A score for each row and target."""
        require_float(x=x)
        require_same_dtype(x=x, thresholds=thresholds, weights=weights)
        require_dtype(i64, nodes=nodes, roots=roots, votes=votes)
        require_rank(2, x=x, nodes=nodes, votes=votes)
        require_rank(1, roots=roots)
        require_shape((nodes.shape[0], len(NODE_FIELDS)), nodes=nodes)
        require_shape(nodes.shape[:1], thresholds=thresholds)
        require_shape(votes.shape, weights=weights)
        require(self.targets > 0, f"there must be targets, got {self.targets}")
        return x.with_shape((x.shape[0], self.targets))

    def evaluate(
        self, x: Array, nodes: Array, thresholds: Array, roots: Array, votes: Array, weights: Array
    ) -> Array:
        """All rows go down all trees at once, a level at a time."""
        leaves = nodes[_leaves(x, nodes, thresholds, roots), 2]
        if leaves.size and leaves.max() >= len(votes):
            allowed = (0, len(votes) - 1)
            raise IndexRangeError.of(self.mnemonic, "nodes", int(leaves.max()), allowed)
        rows = np.arange(x.shape[0])[:, np.newaxis, np.newaxis]
        places = rows * self.targets + votes[leaves]
        is_vote = votes[leaves] >= 0
        scores = self._aggregated(places[is_vote], weights[leaves][is_vote], x.shape[0])
        return scores / max(len(roots), 1) if self.aggregate is Aggregate.AVERAGE else scores

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """What nodes name is there. Of a leaf that is its votes, which are fewer than nodes."""
        x, nodes, *_ = self.required_of(operands)
        node, kind = IndexRange.counts(nodes.shape[0] - 1), IndexRange.counts(len(NodeKind) - 1)
        feature = IndexRange.counts(max(x.shape[1] - 1, 0))
        return {
            "nodes": (kind, feature, node, node, None),
            "roots": (node,),
            "votes": (IndexRange(-1, self.targets - 1),),
        }

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        nodes: Value,
        thresholds: Value,
        roots: Value,
        votes: Value,
        weights: Value,
    ) -> Gradients:
        """Flat between its thresholds. A vote gets what its target gets, of equal ones its share.

        How often each row reaches each leaf, the ensemble tells itself: with a target for each.
        """
        leaves = weights.type.shape[0]
        if isinstance(weights, Constant) or not weights.type.size or not roots.type.size:
            return (None,) * 6
        own = b.emit(Iota((leaves, 1), 0, i64))
        ones = b.emit(Fill((leaves, 1), 1.0, weights.type.dtype))
        counts = Aggregate.AVERAGE if self.aggregate is Aggregate.AVERAGE else Aggregate.SUM
        reached = b.emit(TreeEnsemble(leaves, counts), x, nodes, thresholds, roots, own, ones)
        chosen = self._chosen(b, votes, grad)
        if self.aggregate is counts:
            by_leaf = b.emit(MatMul(transpose_lhs=True), reached, grad)
            spread = b.emit(Mul(), chosen, b.emit(Reshape((leaves, 1, self.targets)), by_leaf))
            return *(None,) * 5, b.emit(ReduceSum((2,), keepdims=False), spread)
        share = self._share_of_extremes(b, out, grad, weights, reached, chosen)
        return *(None,) * 5, b.emit(ReduceSum((0, 3), keepdims=False), share)

    def _share_of_extremes(
        self, b: Builder, out: Value, grad: Value, weights: Value, reached: Value, chosen: Value
    ) -> Value:
        """What each vote gets, [row, leaf, number, target]: those equal to the result share."""
        rows, leaves = reached.type.shape
        apart = Reshape((rows, 1, 1, self.targets))
        equal = b.emit(
            Equal(), b.emit(Reshape((*weights.type.shape, 1)), weights), b.emit(apart, out)
        )
        here = b.emit(Less(), scalar(b, 0, reached), reached)
        wins = b.emit(And(), equal, b.emit(Reshape((rows, leaves, 1, 1)), here))
        wins = b.emit(Mul(), b.emit(Cast(grad.type.dtype), wins), chosen)
        ties = b.emit(Max(), b.emit(ReduceSum((1, 2)), wins), scalar(b, 1, wins))
        return b.emit(Mul(), wins, b.emit(Div(), b.emit(apart, grad), ties))

    def _chosen(self, b: Builder, votes: Value, like: Value) -> Value:
        """1 where a vote, [leaf, number], is for a target, the last axis; else 0."""
        targets = b.emit(Iota((self.targets,), 0, i64))
        same = b.emit(Equal(), b.emit(Reshape((*votes.type.shape, 1)), votes), targets)
        return b.emit(Cast(like.type.dtype), same)

    def _aggregated(self, places: Array, weights: Array, rows: int) -> Array:
        size = rows * self.targets
        if self.aggregate in (Aggregate.SUM, Aggregate.AVERAGE):
            scores = np.zeros(size, np.result_type(weights, np.float32))
            np.add.at(scores, places, weights)  # in the order of the trees, which ties depend on
            return scores.reshape(rows, self.targets)
        function, neutral = (
            (np.minimum, np.inf) if self.aggregate is Aggregate.MIN else (np.maximum, -np.inf)
        )
        scores = np.full(size, neutral)
        function.at(scores, places, weights)
        has_votes = np.bincount(places, minlength=size) > 0
        return np.where(has_votes, scores, 0).reshape(rows, self.targets)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Each row on its own."""
        return (0, None, None, None, None, None) if axis == 0 else None


def _leaves(x: Array, nodes: Array, thresholds: Array, roots: Array) -> Array:
    """The leaf of each row of x in each tree."""
    kind, feature, if_true, if_false, if_missing = nodes.T
    at = np.broadcast_to(roots, (x.shape[0], roots.size))
    present = [test for test in _COMPARE if np.any(kind == test)]
    for _ in range(len(nodes)):  # no path is longer
        inner = kind[at] != NodeKind.LEAF
        if not inner.any():
            break
        value, limit = np.take_along_axis(x, feature[at], 1), thresholds[at]
        holds = np.zeros(at.shape, np.bool_)
        for test in present:
            holds |= (kind[at] == test) & _COMPARE[test](value, limit)
        holds = np.where(np.isnan(value), if_missing[at] != 0, holds)
        at = np.where(inner, np.where(holds, if_true[at], if_false[at]), at)
    return at
