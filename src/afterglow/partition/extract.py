"""Subgraphs of a module as modules of their own, joined by the names of the values they pass on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from afterglow.graph import Constant, Function, Module, Node, Placeholder, PlaceholderKind, Value
from afterglow.graph.dims import dims_of_functions
from afterglow.graph.function import Cloner, Output, subgraphs_of
from afterglow.graph.printer import functions_in_order
from afterglow.support.errors import InternalError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import RangedExtent
from afterglow.types.extent.solver import solve


@dataclass(frozen=True)
class PartModule:
    """A subgraph as a module: inputs and outputs are named as the values that they stand for."""

    module: Module

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the values that it takes: inputs of the model, or what other parts give."""
        return tuple(value.name for value in self.module.main.inputs)

    @property
    def gives(self) -> tuple[str, ...]:
        """The names of the values that other parts or callers of the model need of it."""
        return tuple(output.name for output in self.module.main.outputs)


def extract(module: Module, groups: Sequence[Sequence[Node]]) -> list[PartModule]:
    """The subgraphs of a module's main function, which have each of its nodes once, in order.

    Arrays of constants are shared. A state belongs to the one part that reads or updates it. What
    an output of the model is called is in `output_values`.
    """
    whole = _Whole(module.main, groups)
    return [_Extraction(whole, number).run() for number in range(len(groups))]


def output_values(function: Function) -> list[str]:
    """For each output of a function, the name that parts have for its value."""
    return [_name_of(output.value) for output in function.outputs]


def _name_of(value: Value) -> str:
    """What parts call a value that they give; what no node computes has a name of another form."""
    if value.producer is not None:
        return value.name
    return f"@{value.name}" if _is_shared(value) else f"%{value.name}"


def _is_state(value: Value) -> bool:
    return isinstance(value, Placeholder) and value.kind is PlaceholderKind.STATE


def _is_shared(value: Value) -> bool:
    """Whether a value belongs to the module."""
    return isinstance(value, Constant) or _is_state(value)


def carried_functions(nodes: Iterable[Node]) -> list[Function]:
    """The functions that nodes carry, directly or not, inner ones first."""
    found: dict[Function, None] = {}
    for node in nodes:
        bodies = [subgraph.function for subgraph in subgraphs_of(node.op)]
        found.update(dict.fromkeys(functions_in_order(bodies)))
    return list(found)


def shared_values(nodes: Sequence[Node]) -> list[Value]:
    """The constants and the state that nodes read, or functions that they carry; each once."""
    found: dict[Value, None] = {}
    for node in nodes:
        found.update((v, None) for v in node.inputs() if _is_shared(v))
    for function in carried_functions(nodes):
        found.update(dict.fromkeys(function.constants()))
        found.update(dict.fromkeys(function.states()))
    return list(found)


class _Whole:
    """A function and the groups of its nodes: who owns what."""

    def __init__(self, function: Function, groups: Sequence[Sequence[Node]]) -> None:
        self.function = function
        self.groups = groups
        self.owner = {node: number for number, nodes in enumerate(groups) for node in nodes}
        self.shared = [shared_values(nodes) for nodes in groups]
        self.state_owner = self._state_owners()
        self.returned: dict[Value, Output] = {}
        for output in function.outputs:
            self.returned.setdefault(output.value, output)
        self._check()

    def _state_owners(self) -> dict[Value, int]:
        owners: dict[Value, int] = {}
        for number, values in enumerate(self.shared):
            for state in filter(_is_state, values):
                if owners.setdefault(state, number) != number:
                    raise InternalError(f"two parts read the state @{state.name}")
        for update in self.function.updates:
            owners.setdefault(update.state, self.owner_of(update.value))
        for output in self.function.outputs:
            if _is_state(output.value):
                owners.setdefault(output.value, self.last)
        return owners

    @property
    def last(self) -> int:
        """The part that returns what no node computes."""
        return len(self.groups) - 1

    def owner_of(self, value: Value) -> int:
        """The part that gives a value."""
        if _is_state(value):
            return self.state_owner.get(value, self.last)
        return self.last if value.producer is None else self.owner[value.producer]

    def _check(self) -> None:
        if len(self.owner) != len(self.function):
            raise InternalError(f"the parts of @{self.function.name} lack some of its nodes")
        for number in range(len(self.groups)):
            for value in self.read_by(number):
                if value.producer is not None and self.owner[value.producer] > number:
                    raise InternalError(f"a part reads %{value.name} of a later one")

    def read_by(self, number: int) -> Iterator[Value]:
        """All that a part reads, but state and constants; some of it its own, or several times."""
        for node in self.groups[number]:
            yield from (value for value in node.inputs() if not _is_shared(value))
        for update in self.function.updates:
            if self.state_owner[update.state] == number and not _is_shared(update.value):
                yield update.value

    def given_by(self, number: int) -> Iterator[Value]:
        """The results of a part that others read, or callers of the model."""
        readers = self.owner
        stored = {u.value: self.state_owner[u.state] for u in self.function.updates}
        for node in self.groups[number]:
            for value in node.results:
                crosses = any(readers[user] != number for user in value.users if user in readers)
                if crosses or value in self.returned or stored.get(value, number) != number:
                    yield value
        yield from (v for v in self.returned if v.producer is None and self.owner_of(v) == number)


class _Extraction:
    """Copies one group into a module."""

    def __init__(self, whole: _Whole, number: int) -> None:
        self.whole, self.number = whole, number
        self.target = Module(whole.function.module.name)
        self.values: dict[Value, Value] = {}

    def run(self) -> PartModule:
        """The part."""
        nodes = self.whole.groups[self.number]
        self._copy_shared()
        functions = carried_functions(nodes)
        copies = {function: Function(function.name, self.target) for function in functions}
        for function, copy in copies.items():
            Cloner(function, copy, self.values, copies).run()
        main = Function(self.whole.function.name, self.target)
        self._take(main, self._read())
        cloner = Cloner(self.whole.function, main, self.values, copies)
        for node in nodes:
            cloner.copy(node)
        self._finish(cloner, main)
        self._tell_extents(main)
        return PartModule(self.target)

    def _copy_shared(self) -> None:
        updated = (u.state for u in self.whole.function.updates)
        owned = [s for s in updated if self.whole.state_owner[s] == self.number]
        returned = (v for v in self.whole.given_by(self.number) if v.producer is None)
        for value in dict.fromkeys((*self.whole.shared[self.number], *owned, *returned)):
            if isinstance(value, Constant):
                self.values[value] = self.target.constant(value.name, value.data, value.type)
            elif isinstance(value, Placeholder) and _is_state(value):
                self.values[value] = self.target.state(value.name, value.type, value.level)

    def _read(self) -> list[Value]:
        """What comes from elsewhere, each once, in the order of first use."""
        own = {value for node in self.whole.groups[self.number] for value in node.results}
        given = self.whole.given_by(self.number)
        returned = (v for v in given if v.producer is None and v not in self.values)
        values = dict.fromkeys((*self.whole.read_by(self.number), *returned))
        return [value for value in values if value not in own]

    def _take(self, main: Function, values: Iterable[Value]) -> None:
        for value in values:
            self.values[value] = copy = main.input(value.name, value.type)
            if isinstance(value, Placeholder):
                copy.quantization = value.quantization

    def _finish(self, cloner: Cloner, main: Function) -> None:
        for value in self.whole.given_by(self.number):
            main.output(_name_of(value), cloner.copy_of(value))
            if value in self.whole.returned:
                main.outputs[-1].quantization = self.whole.returned[value].quantization
        for update in self.whole.function.updates:
            if self.whole.state_owner[update.state] == self.number:
                state = cloner.copy_of(update.state)
                assert isinstance(state, Placeholder)
                main.update(state, cloner.copy_of(update.value))

    def _tell_extents(self, main: Function) -> None:
        """Add inputs whose shapes tell the extents of dimensions that the others do not."""
        needed = {dim.name for dim in dims_of_functions(self.target.functions.values())}
        levels = [state.level.before for state in main.states() if state.level is not None]
        known: dict[str, int] = {}
        learn_extents([*levels, *(n for value in main.inputs for n in value.type.shape)], known)
        for value in self._tellers():
            if needed <= known.keys():
                return
            before = len(known)
            learn_extents(value.type.shape, known)
            if len(known) > before and value not in self.values:
                self._take(main, [value])
        if not needed <= known.keys():
            raise UnsupportedError(
                f"no input tells the extent of dimension {min(needed - known.keys())!r} to a part",
                where=self._place,
                help="compile for one device, or give the dimension an extent: dims={NAME: EXTENT}",
            )

    @property
    def _place(self) -> str:
        nodes = self.whole.groups[self.number]
        return f"in the part from node {nodes[0].origin or nodes[0].name!r} on" if nodes else ""

    def _tellers(self) -> Iterator[Value]:
        """Values from elsewhere with ranged shapes, inputs of the model first."""
        yield from (value for value in self.whole.function.inputs if value.type.is_ranged)
        for nodes in self.whole.groups[: self.number]:
            for node in nodes:
                yield from (value for value in node.results if value.type.is_ranged)


def learn_extents(extents: Iterable[int], known: dict[str, int]) -> None:
    """Add the dimensions that can be told from extents, as if each had its largest extent."""
    ranged = [extent for extent in extents if isinstance(extent, RangedExtent)]
    count = -1
    while count < len(known):
        count = len(known)
        for extent in ranged:
            solve(extent, extent.bind({dim.name: dim.high for dim in extent.dims}), known)
