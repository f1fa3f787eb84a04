"""Local rewrite rules, and the driver that applies them until none matches.

The driver is a worklist: a node is looked at once, and again only when something near it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from afterglow.graph import Builder, Function, Node, Op, Value
from afterglow.passes.base import Pass
from afterglow.passes.provenance import give_origins, replaced_nodes
from afterglow.support.errors import CompileError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.worklist import Worklist
from afterglow.types.extent import UndecidedExtentError

Replacement: TypeAlias = Value | Sequence[Value] | None
RuleFunction: TypeAlias = Callable[[Node, Builder], Replacement]

REWRITES_PER_NODE = 64
"""A set of rules that fires more often than this per node of the input does not settle."""


@dataclass(frozen=True)
class Rule:
    """A rewrite rule: the ops it starts from, and the function that tries it."""

    roots: tuple[type[Op], ...]
    apply: RuleFunction

    @property
    def name(self) -> str:
        """The function's name."""
        return self.apply.__name__

    @property
    def law(self) -> str:
        """What it does: the function's docstring."""
        return self.apply.__doc__ or ""


def rewrite(*roots: type[Op]) -> Callable[[RuleFunction], Rule]:
    """Declare a rule for nodes whose op is one of `roots` or of a subclass.

    The function matches the node, builds the replacement with the builder it is given and returns
    the value of each result, or returns None, before building anything, to decline.
    """
    return lambda function: Rule(roots, function)


class RewritePass(Pass):
    """Applies a set of rules until none matches.

    A rule that depends on the extents of a run declines, or is an error if it is `required`.
    """

    def __init__(self, name: str, rules: Sequence[Rule], *, required: bool = False) -> None:
        self.name = name  # type: ignore[misc]  # a class variable of other passes
        self.rules = tuple(rules)
        self.required = required

    def run(self, function: Function) -> bool:
        """See the class."""
        return _Driver(self, function).run()


class _Driver:
    """One run of a rewrite pass over one function."""

    def __init__(self, owner: RewritePass, function: Function) -> None:
        self.owner = owner
        self.function = function
        self.budget = REWRITES_PER_NODE * (len(function) + 16)
        self.pending = Worklist(function.nodes)
        self.rules_of: dict[type[Op], list[Rule]] = {}
        self.escaping = {id(value) for value in function.escaping()}

    def run(self) -> bool:
        changed = False
        while self.pending:
            node = self.pending.take()
            if node.function is self.function:
                changed |= self._visit(node)
        return changed

    def _visit(self, node: Node) -> bool:
        if self._is_dead(node):
            self._erase(node)
            return True
        for rule in self._rules(type(node.op)):
            builder = Builder(
                self.function,
                node,
                name=node.name,
                origins=node.origins,
                predicate=node.predicate,
            )
            replacement = self._try(rule, node, builder)
            if replacement is not None:
                values = [replacement] if isinstance(replacement, Value) else list(replacement)
                self._replace(rule, node, values, builder)
                return True
        return False

    def _try(self, rule: Rule, node: Node, builder: Builder) -> Replacement:
        """What a rule puts in the place of a node; None if it declines."""
        try:
            return rule.apply(node, builder)
        except UndecidedExtentError:
            if self.owner.required:
                raise
            for emitted in reversed(builder.emitted):
                self.function.erase(emitted)
            return None

    def _rules(self, cls: type[Op]) -> list[Rule]:
        if cls not in self.rules_of:
            self.rules_of[cls] = [r for r in self.owner.rules if issubclass(cls, r.roots)]
        return self.rules_of[cls]

    def _replace(self, rule: Rule, node: Node, values: list[Value], builder: Builder) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise CompileError(
                f"the rules of pass '{self.owner.name}' do not settle; the last was '{rule.name}'"
            )
        for old, new in zip(node.results, values, strict=True):
            for user in old.users:
                self.pending.add(user)
            self.function.replace(old, new)
            if id(old) in self.escaping:
                self.escaping.add(id(new))
        old_names = [result.name for result in node.results]
        give_origins(builder.emitted, replaced_nodes(node, self.escaping))
        self._erase(node)
        for name, new in zip(old_names, values, strict=True):
            if new.producer in builder.emitted and new.producer.function is self.function:
                self.function.rename(new, name)
        for fresh in builder.emitted:
            self.pending.add(fresh)

    def _erase(self, node: Node) -> None:
        producers = [value.producer for value in node.inputs() if value.producer is not None]
        self.function.erase(node)
        for producer in producers:
            self.pending.add(producer)
            for result in producer.results:  # rules may ask whether a value has one user only
                if result.use_count == 1:
                    self.pending.add(result.users[0])

    def _is_dead(self, node: Node) -> bool:
        return node.op.pure and not any(
            result.use_count or id(result) in self.escaping for result in node.results
        )
