"""What the import of a model shares among its graphs, and what holds for one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from afterglow.frontends.base import RunBody
from afterglow.frontends.definition.bodies import BodyGraph
from afterglow.frontends.definition.body_history import BodyHistory
from afterglow.frontends.definition.chunks import LoopChunks
from afterglow.frontends.definition.known import KnownValues
from afterglow.frontends.definition.limits import LEAST_LIMIT, MOST_AXES, check_tensor, tensor_limit
from afterglow.frontends.definition.model import AttributeDef, FunctionDef, GraphDef, ModelDef
from afterglow.frontends.definition.order import model_reads
from afterglow.frontends.definition.problems import NeedsInliningError
from afterglow.graph import Builder, Function, Module, Origins, Placeholder, Value
from afterglow.ops.elementwise import Add
from afterglow.ops.linear_forms import Condition, LinearForms
from afterglow.ops.loop_bounds import LoopFacts, conditions_left
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import i64

MOST_NESTED = 64
"""Functions in functions and graphs in graphs, at most."""

MOST_EXPANDED = 100_000
"""Nodes in calls, unrolled loops and gradients, at most: a small file could ask for any number."""


class TooLargeError(UnsupportedError):
    """The model unfolds into too much: there is no point in looking for further problems."""


@dataclass
class Session:
    """What the import of one model shares among its graphs.

    Where all values are known, `run_body` runs the bodies of If, Loop and Scan, `cached` has the
    arrays, by their identity, that will be the same ones next time, `graphs` bodies that were met
    before, and `chunks` what was seen of loops, by the identity of their bodies. `given_run_number`
    makes the value that random numbers depend on, if that is not state of the module.
    """

    model: ModelDef
    module: Module
    functions: Mapping[tuple[str, str, str], FunctionDef]
    """The model's own functions by domain, name and overload."""
    known: KnownValues = field(default_factory=KnownValues)
    run_body: RunBody | None = None
    cached: Mapping[int, Array] = field(default_factory=dict)
    graphs: dict[object, BodyGraph] = field(default_factory=dict)
    chunks: dict[int, LoopChunks] = field(default_factory=dict)
    given_run_number: Callable[[], Value] | None = None
    max_memory: int | None = None
    """Bytes that a tensor may take; None if that follows from `own_bytes`."""
    own_bytes: int = 0
    """What the constants and inputs of the model take."""
    data_lengths: bool = True
    """Whether lengths that only data tell may be dimensions in the bodies of loops."""
    is_speculative: bool = False
    """Whether what is imported may end with an error where another way would not."""
    expanded: int = 0
    histories: dict[int, BodyHistory] = field(default_factory=dict)
    """By the identity of bodies, what earlier imports of them have shown."""
    refused: dict[int, str] = field(default_factory=dict)
    """By the identity of their nodes, why loops cannot be ops."""
    conditions: list[Condition] = field(default_factory=list)
    """What loops that are being imported must show, so that slices which move stay inside."""
    _run_number: Value | None = None

    @cached_property
    def forms(self) -> LinearForms:
        """Integers of the model as sums of what is not known."""
        return LinearForms(self.known.outermost)

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The names of values that something in the model reads or returns."""
        return frozenset(model_reads(self.model))

    def history(self, graph: GraphDef) -> BodyHistory:
        """What earlier imports of a body have shown."""
        if id(graph) not in self.histories:
            self.histories[id(graph)] = BodyHistory(graph)
        return self.histories[id(graph)]

    def assume(self, conditions: Iterable[Condition]) -> bool:
        """Whether conditions hold, or may turn out to hold once the loops around are imported."""
        left = [each for each in conditions if not self.forms.holds(each)]
        if not all(map(self.forms.may_hold, left)):
            return False
        self.conditions.extend(left)
        return True

    def end_loop(self, loop: LoopFacts) -> None:
        """Decide conditions by what a loop around them tells, or refuse its body as a function."""
        left = conditions_left(self.forms, loop, self.conditions)
        if left is None:
            raise NeedsInliningError("a slice in a loop may exceed its operand")
        self.conditions[:] = left

    def run_number(self) -> Value:
        """What counts the runs: random numbers differ from one to the next."""
        if self._run_number is None:
            make = self.given_run_number or self._counted_runs
            self._run_number = make()
        return self._run_number

    def _counted_runs(self) -> Placeholder:
        return self.module.state("run_number", TensorType(i64, ()))

    def count_runs(self, function: Function) -> None:
        """Let the main function count its runs, if something depends on their number."""
        if not isinstance(self._run_number, Placeholder) or self.given_run_number is not None:
            return
        one = function.module.constant("one", np.ones((), np.int64))
        function.update(self._run_number, Builder(function).emit(Add(), self._run_number, one))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """If what is done in here fails, the module loses the functions that it made."""
        before, conditions = len(self.module.functions), [*self.conditions]
        try:
            yield
        except AfterglowError:
            self.conditions[:] = conditions
            for name in [*self.module.functions][before:]:
                self.module.erase_function(name)
            raise

    def check_size(self, type: TensorType) -> None:
        """Raise if a tensor takes more memory than it may."""
        large = type.nbytes > (self.max_memory or LEAST_LIMIT)
        if large or type.nbytes == 0 or type.rank > MOST_AXES:
            check_tensor(type, tensor_limit(self.own_bytes, self.max_memory))

    def count_expanded(self) -> None:
        """Note a node that the file holds once, but the import may meet many times."""
        self.expanded += 1
        if self.expanded > MOST_EXPANDED:
            raise TooLargeError(f"the model unfolds into more than {MOST_EXPANDED:,} nodes")


@dataclass(frozen=True)
class Frame:
    """What holds for all nodes of one graph.

    `places` says where the graph is, innermost first, for errors: `then_branch of 'choice'`.
    `origins` name the model's node that they all come from; empty if they are the model's own.
    """

    opsets: Mapping[str, int]
    attributes: Mapping[str, AttributeDef] = field(default_factory=dict)
    """Of the function call that is being expanded."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What the results of a function are called where it is called."""
    prefix: str = ""
    origins: Origins = ()
    places: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The functions that are being expanded, outermost first."""
    is_expanded: bool = False
    is_body: bool = False
    is_in_loop: bool = False
    """Whether it is the body of a loop as a function, or inside of one."""

    def name(self, output: str) -> str:
        """What to call a result."""
        return self.names.get(output) or self.prefix + output

    def inside(self, place: str, **changes: Any) -> Frame:
        """The frame of a graph inside of this one."""
        if len(self.places) >= MOST_NESTED:
            raise ModelError(f"graphs and functions are nested more than {MOST_NESTED} deep")
        return replace(self, places=(place, *self.places), **changes)

    def where(self, node: str) -> str:
        """The place of a node, for errors."""
        places = self.places if len(self.places) <= 3 else (*self.places[:2], "…", self.places[-1])
        return " in ".join((repr(node), *places))
