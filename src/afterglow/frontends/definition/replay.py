"""Nodes that the host runs again and again: imported once for types, and replayed from then on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from afterglow.frontends.base import RUN_NUMBER, HostLimits, NeedsValuesError
from afterglow.frontends.definition.frame import Frame, Session
from afterglow.frontends.definition.graph import GraphImporter
from afterglow.frontends.definition.host_loops import HOST_RUNS, HostRun
from afterglow.frontends.definition.model import FunctionDef, ModelDef, NodeDef
from afterglow.frontends.definition.order import reads
from afterglow.graph import Function, Module, Tape, Value
from afterglow.support.errors import AfterglowError, UnsupportedError
from afterglow.types import Array, TensorType

MOST_TAPES = 256
"""How many tapes of a node are cached; the least recently used goes."""

_FEW_BYTES = 1024
"""Values that decide shapes are worth a tape of their own up to this size."""

Functions: TypeAlias = Mapping[tuple[str, str, str], FunctionDef]
"""The model's own functions by domain, name and overload."""


class ReplayedNode:
    """One node of a model, and what it does for operands of some types.

    Where values of operands decide shapes, tapes are cached by those values. `results` are the
    names of those results that matter, `reads` those that it reads, in bodies too; `fixed` has the
    values by name that are always the same.
    """

    def __init__(
        self,
        node: NodeDef,
        results: Sequence[str],
        model: ModelDef,
        functions: Functions,
        frame: Frame,
        fixed: Mapping[str, Any],
        limits: HostLimits,
    ) -> None:
        self._limits = limits
        self.node = node
        self.results = results
        self._model = model
        self._functions = functions
        self._frame = frame
        read = dict.fromkeys(name for name in node.input if name)
        self._fixed = {name: fixed[name] for name in read if name in fixed}
        self._given = [name for name in read if name not in fixed]
        self._deciding: frozenset[str] = frozenset()
        self._tapes: OrderedDict[tuple[object, ...], Tape] = OrderedDict()
        self.reads = [*reads(node), RUN_NUMBER]
        self.driver = self._driver()
        """What runs it on the host if it has bodies and nothing but known values go in and out."""
        self._is_plain = not any(node.graphs()) and all(map(_is_plain, self._fixed.values()))

    def _driver(self) -> HostRun | None:
        node = self.node
        is_call = (node.domain, node.op_type, node.overload) in self._functions
        if is_call or any(attribute.reference for attribute in node.attributes.values()):
            return None
        importer = self._model.dialect.find(
            node.domain, node.op_type, self._frame.opsets.get(node.domain, 1)
        )
        return None if importer is None else HOST_RUNS.get(importer)

    def run(self, known: Mapping[str, Any]) -> list[Array] | None:
        """The results; None if it must be imported anew: not only tensors go in and out."""
        if not self._is_plain:
            return None
        arrays = [known[name] for name in self._given]
        key = self._key(arrays)
        if key is None:
            return None
        tape = self._tapes.get(key)
        if tape is None:
            tape = self._record(arrays)
            key = None if tape is None else self._key(arrays)
            if tape is None or key is None:
                return None
            self._tapes[key] = tape
            if len(self._tapes) > MOST_TAPES:
                self._tapes.popitem(last=False)
        try:
            return tape.run(arrays)
        except (ArithmeticError, LookupError, ValueError):  # which the import reports better
            return None

    def _key(self, arrays: Sequence[Any]) -> tuple[object, ...] | None:
        """What its tape depends on; None if that is too much to keep it under."""
        key: list[object] = []
        for name, array in zip(self._given, arrays, strict=True):
            if not _is_plain(array):
                return None
            key.append((array.dtype, array.shape))
            if name in self._deciding:
                if array.nbytes > _FEW_BYTES:
                    return None
                key.append(array.tobytes())
        return tuple(key)

    def _record(self, arrays: Sequence[Array]) -> Tape | None:
        """Import it, with more and more values known until it can be."""
        while True:
            try:
                return Tape(self._import(arrays), unchecked=self._limits.unchecked)
            except NeedsValuesError as error:
                if self._deciding.issuperset(error.inputs):
                    self._is_plain = False
                    return None
                self._deciding |= {*error.inputs}
            except AfterglowError:  # which comes again, with its cause, where it is imported anew
                self._is_plain = False
                return None

    def _import(self, arrays: Sequence[Array]) -> Function:
        session = Session(self._model, Module("host"), self._functions)
        session.given_run_number = _no_run_number
        session.known.unchecked = self._limits.unchecked
        session.max_memory = self._limits.max_memory
        function = Function("main", session.module)
        graph = GraphImporter(session, function, self._frame)
        for name, array in self._fixed.items():
            graph.scope.define(name, session.module.constant(name, array))
        for name, array in zip(self._given, arrays, strict=True):
            placeholder = function.input(name, TensorType.of(array))
            session.known.input_names[placeholder] = name
            is_known = name in self._deciding
            given = session.module.constant(name, array) if is_known else placeholder
            graph.scope.define(name, given)
        graph.add_nodes([self.node])
        for name, value in zip(self.results, graph.results(self.results), strict=True):
            if not isinstance(value, Value):
                raise UnsupportedError(f"{name!r} is not a tensor")
            function.output(name, value)
        return function


def _is_plain(value: Any) -> bool:
    """Whether it is a tensor of numbers."""
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OUS"


def _no_run_number() -> Value:
    raise UnsupportedError("it differs from run to run")
