"""A model in which data decide shapes: compiled parts, and work of the host between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.version import Version
from afterglow.runtime.versions import Versions
from afterglow.support.errors import UsageError

CONTINUATIONS = 64
"""How many versions of the rest are kept, for the shapes that came out of the host's work."""


@dataclass(frozen=True)
class SegmentedVersion:
    """What can be computed first, what the host makes of it, and versions of the rest.

    `first` gives the values that `crossing` names, `host` more of them by name, and `compile_rest`
    a version for what there is by then. `value_inputs` are the inputs whose values the first part
    depends on.
    """

    first: Version | None
    crossing: Sequence[str]
    host: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    compile_rest: Callable[[Mapping[str, Any]], Version | SegmentedVersion]
    value_inputs: frozenset[str] = frozenset()
    rest: Versions[Version | SegmentedVersion] = field(
        default_factory=lambda: Versions(CONTINUATIONS)
    )

    def run(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The outputs as a caller gets them."""
        known = dict(arrays)
        if self.first is not None:
            known.update(zip(self.crossing, self.first.run(known), strict=True))
        results = self.host(known)
        known.update(results)
        return self.rest.find(known, results, self.compile_rest).run(known)

    @property
    def compiled(self) -> CompiledFunction:
        """The last part that ran."""
        parts = [part for part in (self.first, *self.rest.all()) if part is not None]
        if not parts:
            raise UsageError("nothing of the model is compiled yet", help="run it once")
        return parts[-1].compiled
