"""Sources of which there is a profile: it must be one of the same model."""

from __future__ import annotations

from typing import Any

from afterglow.driver.options import Options
from afterglow.driver.sources import Source, open_source
from afterglow.frontends.base import UnboundDimensionsError
from afterglow.graph import Module
from afterglow.support.errors import UsageError
from afterglow.types.extent import LARGEST_EXTENT, Dim, ranged


def open_profiled(source: Any, options: Options) -> Source:
    """Open a source; raise if the profile that options have is one of another model."""
    opened = open_source(source)
    if options.profile is not None:
        options.profile.check_same(whole_graph(opened), title_of(opened))
    return opened


def whole_graph(source: Source) -> Module:
    """The graph of a model that does not depend on shapes: a profile is tied to it."""
    try:
        return source.graph
    except UsageError:  # a module, which has no other form
        return _loaded(source)


def _loaded(source: Source) -> Module:
    """A module; dimensions that are free stay so."""
    try:
        return source.load(Options())[0]
    except UnboundDimensionsError as error:
        free = {name: ranged(Dim(name, 1, LARGEST_EXTENT)) for name in error.dims}
        return source.load(Options(dims=free))[0]


def title_of(source: Source) -> str:
    """The name of a model's file, for people."""
    return "the model" if source.path is None else source.path.name
