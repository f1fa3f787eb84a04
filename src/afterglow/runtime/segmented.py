"""Models with data-dependent shapes: compiled partitions, and host nodes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import field, replace
from typing import Any, Protocol

from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.extents import Shapes
from afterglow.runtime.version import Version
from afterglow.runtime.versions import Versions
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

CONTINUATIONS = 64
"""How many versions of what follows are cached, by the shapes that the host computed."""


class Continuation(Protocol):
    """How a model goes on behind a boundary."""

    @property
    def ends_here(self) -> bool:
        """Whether all outputs are known once the host has done its work."""

    def run_host(self, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the host computes there, by name, of all that is known by then."""

    def compile_rest(self, known: Mapping[str, Any]) -> Version | SegmentedVersion:
        """A version of the rest, for the shapes of what is known by then."""

    def run_rest(self, known: Mapping[str, Any]) -> list[Any]:
        """The outputs, with the rest run by its definition."""

    def describe(self) -> dict[str, Any]:
        """Where the boundary is, as what JSON can hold."""


@dataclass(frozen=True)
class SegmentedVersion:
    """A compiled partition, what the host makes of its results, and versions of what follows.

    `first` computes the values that `boundary` names. `value_inputs` are the inputs whose values it
    depends on, `unbound` those that had too many values to depend on them, `ranged_shapes` the
    shapes of all inputs of the model if it takes several. `rest` is cached by the shapes of all
    that is known once the host is done.
    """

    first: Version | None
    boundary: Sequence[str]
    continuation: Continuation
    value_inputs: frozenset[str] = frozenset()
    rest: Versions[Version | SegmentedVersion] = field(
        default_factory=lambda: Versions(CONTINUATIONS)
    )
    unbound: frozenset[str] = frozenset()
    ranged_shapes: Shapes | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> SegmentedVersion:
        first, rest = deepcopy(self.first, memo), deepcopy(self.rest, memo)
        return replace(self, first=first, rest=rest)

    def run(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The outputs as a caller gets them."""
        known = dict(arrays)
        if self.first is not None:
            known.update(zip(self.boundary, self.first.run(known), strict=True))
        results = self.continuation.run_host(known)
        known.update(results)
        if self.continuation.ends_here:
            return self.continuation.run_rest(known)
        version = self.rest.find_if_hot(known, known, self.continuation.compile_rest)
        return self.continuation.run_rest(known) if version is None else version.run(known)

    @property
    def compiled(self) -> CompiledFunction:
        """The last part that ran."""
        parts = [part for part in (self.first, *self.rest.all()) if part is not None]
        if not parts:
            raise UsageError("nothing of the model is compiled yet", help="run it once")
        return parts[-1].compiled
