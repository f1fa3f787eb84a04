"""Language models as sources: the caches are sized, and tokens bounded, unless a user says how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from afterglow.frontends.base import Bindings
from afterglow.frontends.content import Content
from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.dialect import Dialect
from afterglow.frontends.definition.file_source import FileSource
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.definition.model import ModelDef
from afterglow.frontends.language import importers  # noqa: F401  fills the tables of the dialects
from afterglow.frontends.language.config import MOST_CONTEXT, LanguageConfig
from afterglow.frontends.language.definition import BY_TOKEN, Caches, define_graph
from afterglow.frontends.language.weights import Weight
from afterglow.graph import Module
from afterglow.runtime.text_metadata import TEXT, TextMetadata
from afterglow.support.errors import UsageError, warn
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import OutputForm
from afterglow.types.extent import Dim, is_ranged, largest, ranged

CHUNK = 256
"""The most tokens of a call, by default."""
CONTEXT = 2048
"""The most positions of a sequence by default, if the model was trained for more."""
MOST_SEQUENCES = 1 << 16
_OF_CACHES = ("context", "sequences")
"""The dimensions that size the caches: no input has them."""


@dataclass(frozen=True)
class LanguageModel:
    """What a front end reads: sizes and rules, weights by their GGUF names, and the tokenizer."""

    config: LanguageConfig
    weights: Mapping[str, Weight]
    text: TextMetadata
    producer: str = ""

    @property
    def formats(self) -> str:
        """How many tensors are in which format."""
        counts = Counter(weight.format.name for weight in self.weights.values())
        return ", ".join(f"{count} {name}" for name, count in counts.most_common())


class LanguageSource(FileSource):
    """A language model, whose graph is built for each size of its caches."""

    def __init__(
        self,
        content: Content,
        language: LanguageModel,
        dialect: Dialect,
        beside: Sequence[str] = (),
    ) -> None:
        self.language = language
        self.dialect = dialect
        super().__init__(content, self._define(self._caches({})), beside)

    def load(self, bindings: Bindings) -> tuple[Module, tuple[OutputForm, ...]]:
        """Import it, for bounded numbers of tokens and of wanted rows unless bindings say so."""
        model = self._define(self._caches(bindings.dims))
        given = {
            name: e for name, e in bindings.dims.items() if name not in ("context", "sequences")
        }
        dims = {**_default_extents(given, bindings.shapes), **given}
        bound = Binding(bindings.shapes, dims, bindings.values, bindings.max_memory)
        return ModelImporter(model, bound, unchecked=bindings.unchecked).run()

    @property
    def attachments(self) -> Mapping[str, bytes]:
        """What text is for the model."""
        return {TEXT: self.language.text.to_bytes()}

    def _define(self, caches: Caches) -> ModelDef:
        language = self.language
        graph = define_graph(language.config, language.weights, caches)
        about = f"{language.config.architecture}, tensors: {language.formats}"
        producer = f"{language.producer} ({about})" if language.producer else about
        return ModelDef(self.dialect, graph, producer=producer)

    def _caches(self, dims: Mapping[str, int]) -> Caches:
        trained = self.language.config.context
        context = _fixed("context", dims.get("context", min(trained, CONTEXT)), MOST_CONTEXT)
        if context > trained:
            warn(f"the model was trained for {trained:,} positions, the context is {context:,}")
        return Caches(_fixed("sequences", dims.get("sequences", 1), MOST_SEQUENCES), context)


def _fixed(name: str, extent: int, most: int) -> int:
    """An extent that sizes the caches: one number."""
    if is_ranged(extent) or not 1 <= extent <= most:
        raise UsageError(
            f"dimension {name!r} must be one number from 1 to {most:,}, got {extent}",
            help=f"write dims={{{name!r}: 1}}: it sizes the caches of keys and values",
        )
    return extent


def _default_extents(
    dims: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Bounds of dimensions that are not given by name or by the shape of an input."""
    tokens = dims.get("tokens", CHUNK)
    found = {}
    if not shapes.keys() & {*BY_TOKEN}:
        found["tokens"] = ranged(Dim("tokens", 1, CHUNK))
    if "wanted" not in shapes:
        most = max(largest(tokens), 1)
        found["wanted"] = 1 if most == 1 else ranged(Dim("wanted", 1, most))
    return found
