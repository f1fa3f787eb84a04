"""What the import of a model shares among its graphs, and what holds for one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from afterglow.frontends.onnx.known import KnownValues
from afterglow.frontends.onnx.reader import ModelFile
from afterglow.graph import Builder, Function, Module, Placeholder
from afterglow.ops.elementwise import Add
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import TensorType
from afterglow.types.dtype import i64

MOST_NESTED = 64
"""Functions in functions and graphs in graphs, at most."""

MOST_EXPANDED = 100_000
"""Nodes in function calls and unrolled loops, at most: a small file could ask for any number."""


class TooLargeError(UnsupportedError):
    """The model unfolds into too much: there is no point in looking for further problems."""


@dataclass
class Session:
    """What the import of one model shares among its graphs."""

    file: ModelFile
    module: Module
    functions: Mapping[tuple[str, str, str], onnx.FunctionProto]
    """The model's own functions by domain, name and overload."""
    known: KnownValues = field(default_factory=KnownValues)
    expanded: int = 0
    _run_number: Placeholder | None = None

    def run_number(self) -> Placeholder:
        """State that counts the runs: random numbers differ from one to the next."""
        if self._run_number is None:
            self._run_number = self.module.state("run_number", TensorType(i64, ()))
        return self._run_number

    def count_runs(self, function: Function) -> None:
        """Let the main function count its runs, if something depends on their number."""
        if self._run_number is None:
            return
        one = function.module.constant("one", np.ones((), np.int64))
        function.update(self._run_number, Builder(function).emit(Add(), self._run_number, one))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """If what is done in here fails, the module loses the functions that it made."""
        before = len(self.module.functions)
        try:
            yield
        except AfterglowError:
            for name in [*self.module.functions][before:]:
                self.module.erase_function(name)
            raise

    def count_expanded(self) -> None:
        """Note a node that the file holds once, but the import may meet many times."""
        self.expanded += 1
        if self.expanded > MOST_EXPANDED:
            raise TooLargeError(
                f"functions and loops of the model unfold into more than {MOST_EXPANDED:,} nodes"
            )


@dataclass(frozen=True)
class Frame:
    """What holds for all nodes of one graph.

    `places` says where the graph is, innermost first, for errors: `then_branch of 'choice'`.
    `origin` is the model's node that they all come from; empty if they are the model's own.
    """

    opsets: Mapping[str, int]
    attributes: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)
    """Of the function call that is being expanded."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What the results of a function are called where it is called."""
    prefix: str = ""
    origin: str = ""
    places: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The functions that are being expanded, outermost first."""
    is_expanded: bool = False
    is_body: bool = False

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


def normal_domain(domain: str) -> str:
    """The domain as it is kept: the standard's own has two spellings."""
    return "" if domain == "ai.onnx" else domain


def shown_domain(domain: str) -> str:
    """The domain as it is shown."""
    return domain or "ai.onnx"
