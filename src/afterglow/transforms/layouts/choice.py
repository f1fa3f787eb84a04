"""Choose the values that change their layout, so that the fewest bytes are transposed.

The choice among proposals is a minimum cut: nodes on the source's side change their layout, nodes
on the sink's side keep it, and each value between the two costs a transpose. One of the cuts
changes nothing, so the choice is never worse.
"""

from __future__ import annotations

from afterglow.graph import Constant, Function, Node, Value
from afterglow.support.min_cut import SINK, SOURCE, UNBOUNDED, Network
from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.layouts.moved import is_absorbed, transposition
from afterglow.transforms.layouts.permutations import Perm
from afterglow.transforms.layouts.proposals import Proposals

RESHAPE_COST = 1
"""Cost of moving axes of extent 1: almost nothing."""
TRANSPOSE_COST = 1024
"""Fixed cost of a transpose, besides the bytes that it moves."""


def choose_layouts(function: Function, proposals: Proposals) -> set[Value]:
    """The values for which the proposed layout is best."""
    return _Choice(function, proposals).run()


class _Choice:
    """The network of one function."""

    def __init__(self, function: Function, proposals: Proposals) -> None:
        self.proposals = proposals
        self.layouts, self.moves = proposals.layouts, proposals.moves
        self.escaping = set(function.escaping())
        self.network = Network()
        ordered = [
            node.results[0]
            for node in function.nodes
            if node.results[0] in self.layouts or node.results[0] in self.moves
        ]
        self.numbers = {value: self.network.add_node() for value in ordered}
        self.demands: dict[tuple[Value, object], tuple[int, list[int]]] = {}

    def run(self) -> set[Value]:
        for value, number in self.numbers.items():
            node = value.producer
            assert node is not None
            perm = transposition(node)
            if perm is not None:
                self._add_transpose(node, perm)
            else:
                self._add_operands(node, number)
            if value in self.layouts:
                self._add_result(value, number)
        self._add_transposes_that_stay()
        for cost, numbers in self.demands.values():
            self._any_on_source_side(numbers, SINK, cost)
        eager = [self.numbers[value] for value in self.numbers if value in self.proposals.eager]
        side = self.network.cheapest_cut(eager)
        return {value for value, number in self.numbers.items() if number in side}

    def _add_operands(self, node: Node, number: int) -> None:
        """If the node moves, operands that cannot must be transposed for it, once for all."""
        for value, wanted in zip(node.operands, self.moves[node.results[0]].operands, strict=True):
            if value is None or wanted is None or value in self.layouts:
                continue
            if not isinstance(value, Constant):
                demand = self.demands.setdefault(
                    (value, wanted.order), (_demand_cost(value, wanted), [])
                )
                demand[1].append(number)

    def _add_result(self, value: Value, number: int) -> None:
        """One transpose serves all users on the other side."""
        layout = self.layouts[value]
        cost = _cost_of(value, layout)
        stays, followers = value in self.escaping, []
        for user, index in value.uses:
            if index >= 0 and transposition(user) is not None:
                continue
            moved = self.moves.get(user.results[0])
            wanted = moved.operands[index] if moved is not None and index >= 0 else None
            if wanted is None:
                stays |= index < 0 or moved is not None or not is_absorbed(user, index, layout)
            elif wanted.order == layout.order:
                followers.append(self.numbers[user.results[0]])
            else:
                stays = True
                self._add_unary(self.numbers[user.results[0]], _demand_cost(value, wanted))
        if stays:
            self.network.connect(number, SINK, cost)
        else:
            self._any_on_sink_side(number, followers, cost)
        self._any_on_source_side(followers, number, _demand_cost(value, layout))

    def _any_on_sink_side(self, number: int, users: list[int], cost: int) -> None:
        """Pay if `number` is on the source's side and any user on the sink's."""
        if users:
            joint = self.network.add_node()
            self.network.connect(number, joint, cost)
            for user in users:
                self.network.connect(joint, user, UNBOUNDED)

    def _any_on_source_side(self, users: list[int], number: int, cost: int) -> None:
        """Pay if `number` is on the sink's side and any user on the source's."""
        if users:
            joint = self.network.add_node()
            self.network.connect(joint, number, cost)
            for user in users:
                self.network.connect(user, joint, UNBOUNDED)

    def _add_unary(self, number: int, cost: int) -> None:
        """Pay `cost`, or be paid if it is negative, for being on the source's side."""
        if cost > 0:
            self.network.connect(number, SINK, cost)
        elif cost < 0:
            self.network.connect(SOURCE, number, -cost)

    def _add_transposes_that_stay(self) -> None:
        """Transposes of which the operand may move but the result may not."""
        for value in self.numbers:
            for user in value.users if value in self.layouts else ():
                perm = transposition(user)
                if perm is not None and user.result not in self.numbers:
                    self._add_transpose(user, perm)

    def _add_transpose(self, node: Node, perm: Perm) -> None:
        """A transpose that exists costs something else for each choice on its two sides."""
        (x,), y = node.given, node.result
        stay = self._between(node, perm, False, False)
        if x not in self.layouts:
            self._add_unary(self.numbers[y], self._between(node, perm, False, True) - stay)
            return
        first = self._between(node, perm, True, False)
        if y not in self.layouts:
            self._add_unary(self.numbers[x], first - stay)
            return
        second = self._between(node, perm, False, True)
        both = self._between(node, perm, True, True)
        first = max(first, stay + both - second)  # a cut cannot say that opposite sides are best
        self._add_unary(self.numbers[x], first - stay)
        self._add_unary(self.numbers[y], both - first)
        self.network.connect(self.numbers[y], self.numbers[x], first + second - stay - both)

    def _between(self, node: Node, perm: Perm, x_moves: bool, y_moves: bool) -> int:
        """What transposing costs if the operand, the result, or both lie in another layout."""
        (x,), y = node.given, node.result
        before = self.layouts[x] if x_moves else Layout.own(x.type.shape)
        after = self.layouts[y] if y_moves else Layout.own(y.type.shape)
        if before.order != after.before_transpose(perm, x.type.shape).order:
            return _transpose_cost(x)
        return RESHAPE_COST if before.shape != after.shape else 0


def _transpose_cost(value: Value) -> int:
    return TRANSPOSE_COST + value.type.nbytes


def _cost_of(value: Value, layout: Layout) -> int:
    return RESHAPE_COST if layout.keeps_order else _transpose_cost(value)


def _demand_cost(value: Value, layout: Layout) -> int:
    """A little more than the cost, so that transposes do not move without a gain."""
    return _cost_of(value, layout) + 1
