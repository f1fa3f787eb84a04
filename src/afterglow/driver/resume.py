"""Compiling the rest of a saved model whose shapes depend on data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from afterglow.driver.compile import Recipe
from afterglow.driver.described import restore_options
from afterglow.driver.environment import cache_folder
from afterglow.driver.sources import open_source
from afterglow.driver.specialise import PartitionedModel
from afterglow.frontends.base import Boundary, Partition, Remainder
from afterglow.frontends.partition import open_remainder
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.segmented import Continuation
from afterglow.runtime.version import SourceLeft


class ResumedModel:
    """Compiles what is left of a source, for models that were partitioned when they were saved."""

    def __init__(
        self, source: SourceLeft, loading: LoadOptions, *, cache: bool | str | Path
    ) -> None:
        options = restore_options(source.options, **vars(loading), cache=cache_folder(cache))
        graph = open_remainder(Remainder(source.graph, source.weights))
        self.recipe = Recipe(open_source(graph), options)

    def continuation(self, values: Sequence[str], data: Mapping[str, Any]) -> Continuation:
        """A boundary where it was, given what was known and tried before."""
        boundary = Boundary((), tuple(values), tuple(data["host"]), data["twins"])
        self.recipe.bound.unbound.update(data["unbound"])
        partition = Partition(dict.fromkeys(data["given"])) if data["given"] else None
        specialiser = self.recipe.specialiser(replace(self.recipe.options, partition=partition))
        return PartitionedModel(replace(specialiser, tried=frozenset(data["tried"])), boundary)

    def source_left(self, boundaries: Sequence[Collection[str]]) -> SourceLeft:
        """What a file needs to do the same."""
        return self.recipe.source_left(boundaries)
