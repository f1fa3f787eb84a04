"""Ensembles of decision trees: a row of features goes down several trees in turns.

A node is a record of integers, with the record that follows for each outcome of its comparison.
Leaves lead to themselves, so that trees that are done wait for the others. The votes are then
counted tree by tree: sums of floats keep the order of the trees.
"""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import Pointer, Value, convert, differ, equal, select
from afterglow.backends.cpu.micro.cost import TREE_DESCENT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.graph.index_check import has_outside
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.trees import Aggregate, NodeKind, TreeEnsemble
from afterglow.types import Array
from afterglow.types.dtype import f32, f64, i32

IN_TURNS = 8
"""Trees that are gone down at once: each step waits for the one before in the same tree."""

RECORD = 8
"""Integers of a record, of which two fill up: the feature, the leaf, and what follows."""
_LEAF, _NEXT = 1, 2

_LESS, _GREATER, _EQUAL, _MISSING = 1, 2, 3, 0
"""Outcomes: x <= limit counts 1, x >= limit counts 2; neither holds if x is missing, a NaN."""
OUTCOMES = 4
_HOLDS = {
    NodeKind.LESS_EQUAL: (_LESS, _EQUAL),
    NodeKind.LESS: (_LESS,),
    NodeKind.GREATER_EQUAL: (_GREATER, _EQUAL),
    NodeKind.GREATER: (_GREATER,),
    NodeKind.EQUAL: (_EQUAL,),
    NodeKind.NOT_EQUAL: (_LESS, _GREATER),
}

MOST_NODES = 2**27
"""Places in the table of records are 32-bit integers."""


def _accepts(step: OpInstr) -> bool:
    """Sums over trees that are known, of floats that the machine computes with."""
    op, (x, *tables) = step.op, step.required
    assert isinstance(op, TreeEnsemble)
    known = all(b.region is Region.CONSTANT and b.type.size for b in tables)
    sums = op.aggregate in (Aggregate.SUM, Aggregate.AVERAGE)
    if not (known and sums and x.type.dtype in (f32, f64)):
        return False
    return _rows(tables[0]) < MOST_NODES and not _has_nan(tables[1]) and _points_inside(step)


def _points_inside(step: OpInstr) -> bool:
    """Whether all that nodes and leaves name is there: nothing is looked up elsewhere."""
    ranges = step.op.index_ranges([None if b is None else b.type for b in step.ins])
    named = dict(zip(step.op.operand_names, step.required, strict=True))
    data = {n: b.data for n, b in named.items() if b.data is not None}
    if any(name not in data or has_outside(data[name], ranges[name]) for name in ranges):
        return False
    leaves = data["nodes"][data["nodes"][:, 0] == NodeKind.LEAF, 2]
    return bool((leaves < _rows(named["votes"])).all())


def _rows(table: Buffer) -> int:
    return table.type.shape[0]


def _has_nan(limits: Buffer) -> bool:
    """Whether a comparison may fail for another reason than a feature that is missing."""
    return limits.data is None or bool(np.isnan(limits.data).any())


def _needs(r: KernelRequest) -> KernelNeeds:
    op, (x, *tables) = r.step.op, r.step.required
    assert isinstance(op, TreeEnsemble)
    room = -(-_rows(tables[2]) // IN_TURNS) * IN_TURNS
    scratch = {"leaves": Storage(i32, room), "scores": Storage(x.type.dtype, op.targets + 1)}
    return KernelNeeds(scratch=scratch, packed=(1, 2, 3, 4, 5))


@kernel(TreeEnsemble, accepts=_accepts, needs=_needs)
def write_tree_ensemble(k: Kernel) -> None:
    """Write a kernel whose units are rows of features."""
    x, _, _, roots, *_ = k.step.required
    rows, trees = x.type.shape[0], _rows(roots)
    with k.phase(rows, rows * trees * TREE_DESCENT) as p:
        ensemble = _Ensemble(p)
        with p.units() as row:
            ensemble.find_leaves(row)
            ensemble.put_scores(row)


class _Ensemble:
    """The phase while it is being written."""

    def __init__(self, p: Phase) -> None:
        op, (x, *tables) = p.step.op, p.step.required
        assert isinstance(op, TreeEnsemble)
        nodes, thresholds, roots, votes, weights = tables
        self.e, self.op, self.sink, self.dtype = p.e, op, p.sink(), x.type.dtype
        self.trees, self.votes_of_leaf = roots.type.size, votes.type.shape[1]
        self.nodes = nodes.type.shape[0]
        self.together = min(self.trees, IN_TURNS)
        self.groups = -(-self.trees // self.together)
        room, spare = self.groups * self.together, op.targets
        self.x, self.strides = p.pointer(x), x.strides
        self.records = p.packed(nodes, "records", _records, i32)
        self.limits = p.packed(thresholds, "limits", np.ravel)
        self.roots = p.packed(roots, "roots", lambda data: _places(data, room), i32)
        self.votes = p.packed(votes, "votes", lambda data: _targets(data, spare), i32)
        self.weights = p.packed(weights, "weights", np.ravel)
        self.leaves, self.scores = p.scratch("leaves"), p.scratch("scores")

    def find_leaves(self, row: Value) -> None:
        """Go down all trees, some at a time, and note the leaves."""
        features = self.x + row * self.strides[0]
        with self.e.loop(self.groups, name="group") as group:
            roots, leaves = (p + group * self.together for p in (self.roots, self.leaves))
            places = [roots.load(tree) for tree in range(self.together)]
            for tree, place in enumerate(self._walked(features, places)):
                leaves.store((self.records + place).load(_LEAF), tree)

    def _walked(self, features: Pointer, roots: list[Value]) -> list[Value]:
        """The leaves below some roots: walk until nothing moves, or all nodes were met."""

        def step(state: list[Value]) -> list[Value]:
            *places, _, left = state
            following = [self._next(features, place) for place in places]
            moved = left.like(0)
            for before, after in zip(places, following, strict=True):
                moved = moved | (before ^ after)
            return [*following, moved, left - 1]

        def goes_on(state: list[Value]) -> Value:
            *_, moved, left = state
            return differ(moved, moved.like(0)) & (left > 0)

        some, all_nodes = (self.e.constant(i32, n) for n in (1, self.nodes))
        return self.e.iterate([*roots, some, all_nodes], step, while_=goes_on)[:-2]

    def _next(self, features: Pointer, place: Value) -> Value:
        """The record that follows another one."""
        record = self.records + place
        value = features.load(convert(record.load(), self.e.index_type) * self.strides[1])
        limit = self.limits.load(place >> (RECORD.bit_length() - 1))
        below, above = convert(value <= limit, i32), convert(value >= limit, i32)
        return (record + (below * _LESS + above * _GREATER)).load(_NEXT)

    def put_scores(self, row: Value) -> None:
        """Count the votes of the leaves, in the order of the trees."""
        out = self.sink.row(row)
        if self.op.targets == 1:
            zero = self.e.constant(self.dtype, 0)
            (score,) = self.e.fold(self.trees, [zero], self._counted, name="tree")
            out.put(0, self._aggregated(score))
            return
        with self.e.loop(self.op.targets + 1, name="target") as target:
            self.scores.store(self.e.constant(self.dtype, 0), target)
        with self.e.loop(self.trees, name="tree") as tree:
            for place in self._votes(tree):
                target = self.votes.load(place)
                self.scores.store(self.scores.load(target) + self.weights.load(place), target)
        with self.e.loop(self.op.targets, name="target") as target:
            out.put(target, self._aggregated(self.scores.load(target)))

    def _counted(self, tree: Value, carried: list[Value]) -> list[Value]:
        """The only score with the votes of one more tree."""
        (score,) = carried
        for place in self._votes(tree):
            is_vote = equal(self.votes.load(place), self.e.constant(i32, 0))
            score = select(is_vote, score + self.weights.load(place), score)
        return [score]

    def _votes(self, tree: Value) -> list[Value]:
        """Where the votes of the leaf lie that was found in a tree."""
        first = convert(self.leaves.load(tree), self.e.index_type) * self.votes_of_leaf
        return [first + vote for vote in range(self.votes_of_leaf)]

    def _aggregated(self, score: Value) -> Value:
        return score / self.trees if self.op.aggregate is Aggregate.AVERAGE else score


def _records(nodes: Array) -> Array:
    """The table of nodes as records."""
    kind, feature, if_true, if_false, if_missing = nodes.T
    records = np.zeros((len(nodes), RECORD), np.int64)
    records[:, 0] = feature
    is_leaf = kind == NodeKind.LEAF
    records[is_leaf, _LEAF] = if_true[is_leaf]
    records[:, _NEXT + _MISSING] = np.where(if_missing, if_true, if_false)
    for outcome in (_LESS, _GREATER, _EQUAL):
        tests = [test for test, outcomes in _HOLDS.items() if outcome in outcomes]
        records[:, _NEXT + outcome] = np.where(np.isin(kind, tests), if_true, if_false)
    follows = records[:, _NEXT : _NEXT + OUTCOMES]
    follows[is_leaf] = np.flatnonzero(is_leaf)[:, np.newaxis]
    follows *= RECORD
    records[is_leaf, 0] = 0
    return records.astype(np.int32)


def _places(roots: Array, room: int) -> Array:
    """Where the roots lie; what is found below those that fill up is not looked at."""
    places = np.zeros(room, np.int32)
    places[: roots.size] = roots * RECORD
    return places


def _targets(votes: Array, spare: int) -> Array:
    """The target of each vote; negative votes go to a spare target."""
    return np.where(votes < 0, spare, votes).astype(np.int32).reshape(-1)
