"""The table of nodes that our trees take, from each way in which ONNX writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.ops.trees import NodeKind
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

_TESTS = {
    "BRANCH_LEQ": NodeKind.LESS_EQUAL,
    "BRANCH_LT": NodeKind.LESS,
    "BRANCH_GTE": NodeKind.GREATER_EQUAL,
    "BRANCH_GT": NodeKind.GREATER,
    "BRANCH_EQ": NodeKind.EQUAL,
    "BRANCH_NEQ": NodeKind.NOT_EQUAL,
    "LEAF": NodeKind.LEAF,
}
_NUMBERED_TESTS = tuple(_TESTS.values())[:-1]
_MEMBER = len(_NUMBERED_TESTS)
"""The number of the test whether a feature is in a set."""

_UNSET = (NodeKind.LEAF, 0, 0, 0, 0)


@dataclass(frozen=True)
class TreeTable:
    """The constant operands of `TreeEnsemble`."""

    nodes: Array
    thresholds: Array
    roots: Array
    votes: Array
    weights: Array

    def check(self, features: int, targets: int) -> None:
        """Everything that a node names must be there."""
        kinds, feature, if_true, if_false, _ = self.nodes.T
        inner = kinds != NodeKind.LEAF
        named = {
            "feature": (feature[inner], features),
            "node": (np.concatenate([if_true[inner], if_false[inner], self.roots]), len(kinds)),
            "target": (self.votes[self.votes != -1], targets),
        }
        for what, (numbers, count) in named.items():
            wrong = numbers[(numbers < 0) | (numbers >= count)]
            if wrong.size:
                raise ModelError(f"it names {what} {wrong[0]}, but there are {count}")


def member_table(n: NodeContext) -> TreeTable:
    """Nodes, then leaves, then further nodes for the members of sets."""
    columns = _MemberColumns(n)
    leaves = len(columns.leaf_targets)
    nodes, thresholds = columns.table()
    return TreeTable(
        _table(nodes),
        np.array(thresholds),
        np.array(n.integers("tree_roots"), np.int64),
        np.array(columns.leaf_targets, np.int64).reshape(leaves, 1),
        _leaf_weights(n, leaves),
    )


def _leaf_weights(n: NodeContext, leaves: int) -> Array:
    weights = n.tensor("leaf_weights")
    if weights.size != leaves:
        raise ModelError(f"it has {leaves} leaves and {weights.size} weights")
    return weights.reshape(leaves, 1)


class _MemberColumns:
    """The attributes of TreeEnsemble, a list each."""

    def __init__(self, n: NodeContext) -> None:
        self.splits = n.tensor("nodes_splits").reshape(-1)
        self.kinds = [int(mode) for mode in n.tensor("nodes_modes").reshape(-1)]
        count = len(self.kinds)
        self.features = n.integers("nodes_featureids")
        self.missing = n.integers("nodes_missing_value_tracks_true", (0,) * count)
        self.if_true = _children(n, "true", count)
        self.if_false = _children(n, "false", count)
        self.leaf_targets = n.integers("leaf_targetids")
        members = n.tensor("membership_values") if n.has("membership_values") else np.zeros(0)
        self.sets = iter(_split_at_nan(members.reshape(-1)))
        _check_lengths(count, self.splits, self.features, self.missing)

    def table(self) -> tuple[list[tuple[int, ...]], list[float]]:
        """The nodes in their order, the leaves, and the rest of each chain of comparisons."""
        leaves = [(NodeKind.LEAF, 0, leaf, 0, 0) for leaf in range(len(self.leaf_targets))]
        rows: list[tuple[int, ...]] = [*[_UNSET] * len(self.kinds), *leaves]
        thresholds = [0.0] * len(rows)
        for index, kind in enumerate(self.kinds):
            feature, missing = self.features[index], self.missing[index]
            yes, no = self.if_true[index], self.if_false[index]
            if kind != _MEMBER:
                rows[index] = (_NUMBERED_TESTS[kind], feature, yes, no, missing)
                thresholds[index] = float(self.splits[index])
                continue
            *members, last = self._next_set()
            place = index
            for member in members:  # each is compared in turn, and the next if it differs
                rows[place] = (NodeKind.EQUAL, feature, yes, len(rows), missing)
                thresholds[place] = member
                place = len(rows)
                rows.append(_UNSET)
                thresholds.append(0.0)
            rows[place] = (NodeKind.EQUAL, feature, yes, no, missing)
            thresholds[place] = last
        return rows, thresholds

    def _next_set(self) -> list[float]:
        members = next(self.sets, None)
        if members is None:
            raise ModelError("a node asks for membership in a set that membership_values lacks")
        return members or [float("nan")]  # which equals nothing


def _children(n: NodeContext, which: str, count: int) -> list[int]:
    """The rows of the nodes, or of the leaves behind them, that follow each node."""
    ids, are_leaves = n.integers(f"nodes_{which}nodeids"), n.integers(f"nodes_{which}leafs")
    _check_lengths(count, ids, are_leaves)
    return [child + count * bool(leaf) for child, leaf in zip(ids, are_leaves, strict=True)]


def _split_at_nan(values: Array) -> list[list[float]]:
    ends = np.flatnonzero(np.isnan(values))
    starts = np.concatenate([[0], ends + 1])
    return [values[a:b].tolist() for a, b in zip(starts, ends, strict=False)]


def legacy_table(n: NodeContext, kind: str, targets: Sequence[int]) -> TreeTable:
    """Nodes that name their tree and themselves; the votes of leaves name them again."""
    names = [*zip(n.integers("nodes_treeids"), n.integers("nodes_nodeids"), strict=True)]
    first = {tree: row for row, (tree, _) in reversed([*enumerate(names)])}
    thresholds = _floats(n, "nodes_values")
    _check_lengths(len(names), thresholds)
    nodes, leaves = _named_nodes(n, names)
    votes: dict[tuple[int, int], list[int]] = defaultdict(list)
    voters = zip(n.integers(f"{kind}_treeids"), n.integers(f"{kind}_nodeids"), strict=True)
    for vote, voter in enumerate(voters):
        votes[voter].append(vote)
    return TreeTable(
        _table(nodes),
        thresholds,
        np.array([first[tree] for tree in sorted(first)], np.int64),
        *_filled_up([votes[name] for name in leaves], targets, _floats(n, f"{kind}_weights")),
    )


def _named_nodes(
    n: NodeContext, names: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, ...]], list[tuple[int, int]]]:
    """A row for each node, and the names of the leaves in their order."""
    row_of = {name: row for row, name in enumerate(names)}
    kinds = [_TESTS[mode] for mode in n.texts("nodes_modes")]
    features = n.integers("nodes_featureids")
    missing = n.integers("nodes_missing_value_tracks_true", (0,) * len(names))
    if_true, if_false = n.integers("nodes_truenodeids"), n.integers("nodes_falsenodeids")
    _check_lengths(len(names), kinds, features, missing, if_true, if_false)
    nodes: list[tuple[int, ...]] = []
    leaves: list[tuple[int, int]] = []
    for row, (tree, name) in enumerate(names):
        if kinds[row] is NodeKind.LEAF:
            nodes.append((NodeKind.LEAF, 0, len(leaves), 0, 0))
            leaves.append((tree, name))
            continue
        yes, no = row_of[tree, if_true[row]], row_of[tree, if_false[row]]
        nodes.append((kinds[row], features[row], yes, no, missing[row]))
    return nodes, leaves


def _filled_up(
    leaves: Sequence[Sequence[int]], targets: Sequence[int], weights: Array
) -> tuple[Array, Array]:
    """The targets and weights of each leaf, as many for each."""
    shape = (len(leaves), max(map(len, leaves), default=0))
    votes, amounts = np.full(shape, -1), np.zeros(shape, weights.dtype)
    for row, own in enumerate(leaves):
        votes[row, : len(own)] = [targets[vote] for vote in own]
        amounts[row, : len(own)] = weights[list(own)]
    return votes, amounts


def _floats(n: NodeContext, name: str) -> Array:
    """Floats, which are a tensor if they are doubles."""
    if n.has(f"{name}_as_tensor"):
        return n.tensor(f"{name}_as_tensor").reshape(-1)
    return np.array(n.numbers(name), np.float32)


def _table(nodes: Sequence[tuple[int, ...]]) -> Array:
    return np.array(nodes, np.int64).reshape(-1, 5)


def _check_lengths(count: int, *columns: Sequence[object] | Array) -> None:
    for column in columns:
        if len(column) != count:
            raise ModelError(f"there are {count} nodes, but a list of {len(column)} about them")
