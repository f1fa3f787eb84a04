"""Dead-code elimination."""

from __future__ import annotations

from afterglow.graph import Function, Module
from afterglow.passes import Pass


class DropDead(Pass):
    """Erases pure nodes whose results are unused.

    On the main function also: functions that no node carries, and constants that no function uses.
    """

    name = "drop-dead"

    def run(self, function: Function) -> bool:
        """See the class."""
        changed = drop_dead_nodes(function)
        if function is function.module.main:
            changed |= _drop_functions(function.module)
            for other in function.module.functions.values():
                changed |= other is not function and drop_dead_nodes(other)
            changed |= drop_unused_constants(function.module)
        return changed


def drop_dead_nodes(function: Function) -> bool:
    """Erase nodes from the last to the first, so that one look at each is enough."""
    escaping = {id(value) for value in function.escaping()}
    before = len(function)
    for node in reversed(list(function.nodes)):
        needed = any(result.use_count or id(result) in escaping for result in node.results)
        if node.op.pure and not needed:
            function.erase(node)
    return len(function) < before


def _drop_functions(module: Module) -> bool:
    """Remove the functions that main does not reach."""
    reached = {module.main: None}
    pending = [module.main]
    while pending:
        fresh = [inner for inner in pending.pop().subgraphs() if inner not in reached]
        reached.update(dict.fromkeys(fresh))
        pending.extend(fresh)
    dead = [name for name, function in module.functions.items() if function not in reached]
    for name in dead:
        module.erase_function(name)
    return bool(dead)


def drop_unused_constants(module: Module) -> bool:
    """Remove the constants that no function reads, returns or stores."""
    escaping = {id(value) for f in module.functions.values() for value in f.escaping()}
    dead = [
        constant
        for constant in module.constants.values()
        if not constant.use_count and id(constant) not in escaping
    ]
    for constant in dead:
        module.erase_constant(constant)
    return bool(dead)
