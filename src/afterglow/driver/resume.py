"""Going on with a saved model where its code ends, because data decide shapes in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from afterglow.driver.compile import Recipe
from afterglow.driver.environment import cache_folder
from afterglow.driver.options import restore_options
from afterglow.driver.sources import LeftSource
from afterglow.driver.specialise import CutModel
from afterglow.frontends.onnx import Cut, Part, Remainder
from afterglow.runtime.segmented import Continuation
from afterglow.runtime.version import SourceLeft


class ResumedModel:
    """Compiles what is left of a source, for models that were cut before they were saved."""

    def __init__(
        self,
        source: SourceLeft,
        *,
        threads: int | None,
        perf_map: bool,
        cache: bool | str | Path,
    ) -> None:
        options = restore_options(
            source.options, threads=threads, perf_map=perf_map, cache=cache_folder(cache)
        )
        left = Remainder(source.graph, source.weights)
        self.recipe = Recipe(LeftSource(left), options)

    def continuation(self, crossing: Sequence[str], data: Mapping[str, Any]) -> Continuation:
        """A cut where it was, given what was known and tried before."""
        cut = Cut((), tuple(crossing), tuple(data["host"]), data["twins"])
        self.recipe.bound.unbound.update(data["unbound"])
        part = Part(dict.fromkeys(data["given"])) if data["given"] else None
        specialiser = self.recipe.specialiser(replace(self.recipe.options, part=part))
        return CutModel(replace(specialiser, tried=frozenset(data["tried"])), cut)

    def source_left(self, cuts: Sequence[Collection[str]]) -> SourceLeft:
        """What a file needs to do the same."""
        return self.recipe.source_left(cuts)
