"""Models that were compiled before: found in the cache without reading or importing their sources.

So nothing of the compiler is imported either, unless something else is asked of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from afterglow.driver.cache import CompileCache, digest_of_bytes, is_cacheable, model_key
from afterglow.driver.made import made_from
from afterglow.driver.options import Options, model_title
from afterglow.runtime import CompiledModel
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.runtime.version import SourceLeft, Specialiser
from afterglow.support.errors import UsageError


def find_cached(source: Any, options: Options) -> CompiledModel | None:
    """The model that was compiled from a source with the same options; None if there is none."""
    if options.cache is None or not is_cacheable(options):
        return None
    cache = CompileCache(options.cache)
    digest = _digest(source, cache)
    version = None if digest is None else cache.find(model_key(digest, options), options)
    if digest is None or version is None:
        return None
    return CompiledModel(version.signature, _UnreadSource(source, options, digest), version)


def _digest(source: Any, cache: CompileCache) -> str | None:
    """The digest of all that a model is; None if that is not known without reading it."""
    match source:
        case bytes():
            return digest_of_bytes(source)
        case str() | Path():
            try:
                return cache.digest_of_model(Path(source))
            except (OSError, ValueError):  # also of a path that no file can have
                return None
    return None


class _UnreadSource(Specialiser):
    """The source of a model from the cache: read when something else is asked of the model."""

    def __init__(self, source: Any, options: Options, digest: str) -> None:
        self.source = source
        self.options = options
        self.digest = digest

    @cached_property
    def recipe(self) -> Specialiser:
        """The source, read, if it is still what the model was compiled from."""
        # here, because the compiler is what was not to be imported
        from afterglow.driver.compile import Recipe  # noqa: PLC0415
        from afterglow.driver.sources import open_source  # noqa: PLC0415

        assert self.options.cache is not None
        if _digest(self.source, CompileCache(self.options.cache)) != self.digest:
            raise UsageError(
                f"{self.source} has changed since the model was compiled", help="compile it again"
            )
        return Recipe(open_source(self.source), self.options)

    def compile_for(self, feed: Mapping[str, Any]) -> Any:
        """A version that can be run on such inputs."""
        return self.recipe.compile_for(feed)

    def made_from(self) -> Mapping[str, Any]:
        """The compiler, the model's file and the options, as a file says it."""
        files = [] if isinstance(self.source, bytes) else [Path(self.source)]
        return made_from(files, self.options)

    def title(self) -> str:
        """What the source is, and what the model was compiled for."""
        return model_title(self.source, self.options)

    def stage(self, name: str) -> str:
        """The text of a stage of the compiler."""
        return self.recipe.stage(name)

    def export(self, request: BundleRequest, folder: Path, *, shared: bool) -> Bundle:
        """Write the model as a bundle; `shared`, with a shared library."""
        return self.recipe.export(request, folder, shared=shared)

    def source_left(self, boundaries: Sequence[Collection[str]]) -> SourceLeft:
        """What a file needs to go on once the values of one of the boundaries are known."""
        return self.recipe.source_left(boundaries)
