"""Functions, which own nodes and inputs, and modules, which own functions, constants and state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

from afterglow.graph.op import Op
from afterglow.graph.subgraph import Subgraph
from afterglow.graph.value import Constant, Node, Placeholder, PlaceholderKind, Value
from afterglow.support.errors import CompileError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.names import NameScope
from afterglow.types import Array, FillLevel, Quantization, TensorType
from afterglow.types.extent import Extents, RangedExtent, undecided, walk_extents
from afterglow.types.later import LaterArray, source_of
from afterglow.types.mapped import release_pages


@dataclass
class Output:
    """A named result of a function; the value may be anything, an input or a constant too."""

    name: str
    value: Value
    quantization: Quantization | None = None
    """What integers stand for, to callers."""


@dataclass
class Update:
    """At the end of a run, `state` holds `value`."""

    state: Placeholder
    value: Value


class Function:
    """A dataflow graph: nodes in an order in which each follows what it reads."""

    def __init__(self, name: str, module: Module | None = None) -> None:
        self.name = name
        self.module = module if module is not None else Module()
        self.inputs: list[Placeholder] = []
        self.outputs: list[Output] = []
        self.updates: list[Update] = []
        self.names = NameScope()
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0
        self.module.add_function(self)

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in order. The one just yielded may be erased, and others inserted before it."""
        node = self._first
        while node is not None:
            following = node.after
            yield node
            node = following if node.function is None else node.after

    def __len__(self) -> int:
        return self._count

    def input(self, name: str, type: TensorType) -> Placeholder:
        """Add an input."""
        placeholder = Placeholder(self.names.claim(name), type, PlaceholderKind.INPUT)
        self.inputs.append(placeholder)
        return placeholder

    def output(self, name: str, value: Value) -> None:
        """Return `value` under `name`, after the outputs added so far."""
        self.outputs.append(Output(name, value))

    def update(self, state: Placeholder, value: Value) -> None:
        """Store `value` in `state` at the end of each run."""
        if state.type != value.type:
            raise CompileError(f"state {state.name} is {state.type}, cannot store {value.type}")
        self.updates.append(Update(state, value))

    def escaping(self) -> Iterator[Value]:
        """The values that leave the function: its outputs and the updates of state."""
        for output in self.outputs:
            yield output.value
        for update in self.updates:
            yield update.value

    def insert(self, node: Node, before: Node | None = None) -> None:
        """Put a new node in front of `before`, or last."""
        node.function = self
        node.after = before
        node.before = before.before if before is not None else self._last
        if node.before is None:
            self._first = node
        else:
            node.before.after = node
        if before is None:
            self._last = node
        else:
            before.before = node
        self._count += 1

    def erase(self, node: Node) -> None:
        """Remove a node that nothing uses."""
        if any(result.use_count for result in node.results):
            raise CompileError(f"cannot erase {node.name}: it is used")
        self._unlink(node)
        node.disconnect()
        for result in node.results:
            self.names.release(result.name)

    def _unlink(self, node: Node) -> None:
        if node.before is None:
            self._first = node.after
        else:
            node.before.after = node.after
        if node.after is None:
            self._last = node.before
        else:
            node.after.before = node.before
        node.function = None
        self._count -= 1

    def replace(self, old: Value, new: Value) -> None:
        """Replace all uses of `old` in this function by `new`, which has the same type."""
        if old.type != new.type:
            if type(old.type) is TensorType and old.type.is_ranged:
                raise undecided(f"whether {old.type} is {new.type}", *old.type.shape)
            raise CompileError(
                f"cannot replace {old.name} of type {old.type} by {new.name} of type {new.type}"
            )
        for node, index in old.uses:
            if node.function is not self:
                continue
            if index < 0:
                node.predicate = new
            else:
                node.set_operand(index, new)
        for output in self.outputs:
            output.value = new if output.value is old else output.value
        for update in self.updates:
            update.value = new if update.value is old else update.value

    def rename(self, value: Value, name: str) -> None:
        """Rename a result of this function to `name`, or a name like it."""
        self.names.release(value.name)
        value.name = self.names.claim(name)

    def substitute(self, node: Node, value: Value) -> None:
        """Let a value take the place, and the name, of the only result of a node."""
        name = node.name
        self.replace(node.result, value)
        self.erase(node)
        self.rename(value, name)

    def supersede(self, node: Node, values: Sequence[Value]) -> None:
        """Erase a node, and let other nodes have its results instead of some of their own.

        To whoever holds them, the results stay the same values.
        """
        for own, other in zip(node.results, values, strict=True):
            producer = other.producer
            assert producer is not None
            self.replace(other, own)
            producer.results = tuple(own if value is other else value for value in producer.results)
            own.producer = producer
            self.names.release(other.name)
        self._unlink(node)
        node.disconnect()

    def reorder(self, order: Sequence[Node]) -> None:
        """Put the nodes in another order; it must hold each of them once."""
        if len(order) != self._count or {*order} != {*self.nodes}:
            raise CompileError(f"the new order of @{self.name} is not a permutation of its nodes")
        for node in order:
            self._unlink(node)
            self.insert(node)

    def constants(self) -> list[Constant]:
        """The constants that it reads, each once, in order of first use."""
        found: dict[Constant, None] = {}
        for node in self.nodes:
            found.update((v, None) for v in node.inputs() if isinstance(v, Constant))
        found.update((v, None) for v in self.escaping() if isinstance(v, Constant))
        return list(found)

    def states(self) -> list[Placeholder]:
        """The state that it reads or updates, each once."""
        found: dict[Placeholder, None] = {}
        read = (value for node in self.nodes for value in node.inputs())
        for value in (*read, *self.escaping(), *(update.state for update in self.updates)):
            if isinstance(value, Placeholder) and value.kind is PlaceholderKind.STATE:
                found[value] = None
        return list(found)

    def subgraphs(self) -> list[Function]:
        """The functions that its nodes carry as attributes, each once."""
        found: dict[Function, None] = {}
        for node in self.nodes:
            found.update((sub.function, None) for sub in subgraphs_of(node.op))
        return list(found)

    def clone(self, name: str, module: Module | None = None) -> Function:
        """A copy under another name, in this module or another one; arrays are shared."""
        target = Function(name, module or self.module)
        return Cloner(self, target).run()


class Module:
    """Functions and what they share: constants and mutable state."""

    def __init__(self, name: str = "module") -> None:
        self.name = name
        self.functions: dict[str, Function] = {}
        self.constants: dict[str, Constant] = {}
        self.states: dict[str, Placeholder] = {}
        self._names = NameScope()

    @property
    def main(self) -> Function:
        """The function that a user calls: the one named main, or else the last one added."""
        named = self.functions.get("main")  # without nodes, it would count as false
        return next(reversed(self.functions.values())) if named is None else named

    def add_function(self, function: Function) -> None:
        """Add a function whose name is not taken."""
        if function.name in self.functions:
            raise CompileError(f"the module has a function @{function.name} already")
        self.functions[function.name] = function

    def new_function(self, name: str) -> Function:
        """Add an empty function under `name`, or a name like it."""
        names = (name, *(f"{name}_{count}" for count in range(1, len(self.functions) + 1)))
        return Function(next(free for free in names if free not in self.functions), self)

    def constant(
        self, name: str, data: Array | LaterArray, type: TensorType | None = None
    ) -> Constant:
        """Add a constant under `name`, or a name like it."""
        constant = Constant(self._names.claim(name), data, type)
        self.constants[constant.name] = constant
        return constant

    def state(self, name: str, type: TensorType, level: FillLevel | None = None) -> Placeholder:
        """Add mutable state; what grows has a fill level."""
        placeholder = Placeholder(self._names.claim(name), type, PlaceholderKind.STATE, level)
        self.states[placeholder.name] = placeholder
        return placeholder

    def erase_constant(self, constant: Constant) -> None:
        """Remove a constant that nothing uses."""
        del self.constants[constant.name]
        release_pages(source_of(constant.content))
        self._names.release(constant.name)

    def erase_state(self, state: Placeholder) -> None:
        """Remove state that nothing uses."""
        del self.states[state.name]
        self._names.release(state.name)

    def erase_function(self, name: str) -> None:
        """Remove a function that no node carries, and disconnect its nodes."""
        function = self.functions.pop(name)
        for node in function.nodes:
            node.disconnect()

    def clone(self) -> Module:
        """A copy that can be rewritten without touching this one; arrays are shared."""
        return self.bind({})

    def bind(self, extents: Extents) -> Module:
        """A copy in which the dimensions of ranged extents have these extents."""
        target = Module(self.name)
        values: dict[Value, Value] = {}
        for constant in self.constants.values():
            values[constant] = target.constant(constant.name, constant.content, constant.type)
        for state in self.states.values():
            level = state.level.bind(extents) if state.level and extents else state.level
            values[state] = target.state(state.name, _bound(state.type, extents), level)
        copies = {function: Function(function.name, target) for function in self.functions.values()}
        for function, copy in copies.items():
            Cloner(function, copy, values, copies, extents).run()
        return target


def subgraphs_of(op: Op) -> list[Subgraph]:
    """The sub-functions that an op carries as attributes."""
    values = [getattr(op, field.name) for field in fields(op)]  # type: ignore[arg-type]  # ops are dataclasses
    several = (v for v in values if isinstance(v, tuple) and v and isinstance(v[0], Subgraph))
    return [value for value in (*values, *chain(*several)) if isinstance(value, Subgraph)]


class Cloner:
    """Copies a function, or some of its nodes, in order; `values` has the copies made so far."""

    def __init__(
        self,
        source: Function,
        target: Function,
        values: Mapping[Value, Value] | None = None,
        functions: Mapping[Function, Function] | None = None,
        extents: Extents | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.values = dict(values or {})
        self.functions = functions or {}
        self.extents = extents or {}

    def run(self) -> Function:
        """Copy all of the function; the target."""
        for placeholder in self.source.inputs:
            copy = self.target.input(placeholder.name, _bound(placeholder.type, self.extents))
            copy.quantization = placeholder.quantization
            self.values[placeholder] = copy
        for node in self.source.nodes:
            self.copy(node)
        for output in self.source.outputs:
            self.target.output(output.name, self.copy_of(output.value))
            self.target.outputs[-1].quantization = output.quantization
        for update in self.source.updates:
            state = self.copy_of(update.state)
            assert isinstance(state, Placeholder)
            self.target.update(state, self.copy_of(update.value))
        return self.target

    def copy_of(self, value: Value) -> Value:
        """What stands for a value in the target."""
        if value not in self.values and isinstance(value, Constant):
            if self.target.module is self.source.module:
                return value
            self.values[value] = self.target.module.constant(value.name, value.content, value.type)
        return self.values.get(value, value)

    def copy(self, node: Node) -> None:
        """Copy a node; what it reads has been copied before, or is a constant."""
        operands = [None if v is None else self.copy_of(v) for v in node.operands]
        names = [self.target.names.claim(result.name) for result in node.results]
        types = [_bound(result.type, self.extents) for result in node.results]
        copy = Node(self._op(node.op), operands, types, names, node.origins)
        if node.predicate is not None:
            copy.predicate = self.copy_of(node.predicate)
        self.target.insert(copy)
        self.values.update(zip(node.results, copy.results, strict=True))

    def _op(self, op: Op) -> Op:
        if not subgraphs_of(op) and not self.extents:
            return op
        own = {field.name: getattr(op, field.name) for field in fields(op)}  # type: ignore[arg-type]  # ops are dataclasses
        return replace(op, **{name: self._moved(value) for name, value in own.items()})  # type: ignore[type-var]  # as above

    def _moved(self, attribute: Any) -> Any:
        """An attribute with the copies of the functions in it."""
        if isinstance(attribute, tuple):
            return tuple(map(self._moved, attribute))
        if isinstance(attribute, Subgraph) and attribute.function in self.functions:
            return Subgraph(self.functions[attribute.function])
        return bind_attribute(attribute, self.extents)


def _bound(type: TensorType, extents: Extents) -> TensorType:
    return type.bind(extents) if extents else type


def bind_op(op: Op, extents: Extents, copies: dict[Module, Module] | None = None) -> Op:
    """An op whose attributes have the values of a run with these extents.

    So have the functions that it carries: `copies` remembers those of a module.
    """
    own = {field.name: getattr(op, field.name) for field in fields(op)}  # type: ignore[arg-type]  # ops are dataclasses
    copies = {} if copies is None else copies
    bound = {name: _bound_carried(value, extents, copies) for name, value in own.items()}
    changed = {name: value for name, value in bound.items() if value is not own[name]}
    return replace(op, **changed) if changed else op  # type: ignore[type-var]  # as above


def _bound_carried(value: Any, extents: Extents, copies: dict[Module, Module]) -> Any:
    if isinstance(value, tuple) and value and isinstance(value[0], Subgraph):
        return tuple(_bound_carried(part, extents, copies) for part in value)
    if not isinstance(value, Subgraph):
        return bind_attribute(value, extents)
    module = value.function.module
    if module not in copies:
        copies[module] = module.bind(extents)
    return Subgraph(copies[module].functions[value.function.name])


def bind_attribute(value: Any, extents: Extents) -> Any:
    """An attribute of an op with the value of a run with these extents; functions stay."""
    if isinstance(value, RangedExtent) and extents:
        return value.bind(extents)
    if isinstance(value, tuple) and next(walk_extents(value), None) is not None:
        return tuple(bind_attribute(part, extents) for part in value)
    return value
