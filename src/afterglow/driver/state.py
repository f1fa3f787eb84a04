"""Models that keep inputs as state: importing them, and refusing what cannot be one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterglow.driver.options import CACHE_TYPES, Options
from afterglow.driver.sources import Source
from afterglow.graph import Module
from afterglow.runtime.version import Version
from afterglow.support.errors import UsageError
from afterglow.transforms.keep_state import keep_state
from afterglow.transforms.narrow_caches import narrow_caches
from afterglow.types import OutputForm
from afterglow.types.dtype import f32


def import_with_state(source: Source, options: Options) -> tuple[Module, tuple[OutputForm, ...]]:
    """The graph of a model with its state, and what it returns.

    State are the inputs that options say, and those that the model keeps itself.
    """
    module, forms = source.load(options)
    _set_cache_type(module, options)
    own = {each.input: each for each in source.state}
    kept = {**{name: each.output for name, each in own.items()}, **options.state}
    if not kept:
        return module, forms
    before = {output.name for output in module.main.outputs}
    initial = {name: each.initial() for name, each in own.items() if name not in options.state}
    keep_state(module, kept, initial)
    gone = before - {output.name for output in module.main.outputs}
    return module, tuple(form for form in forms if form.name not in gone)


def _set_cache_type(module: Module, options: Options) -> None:
    """Let a language model keep its keys and values in the type that options say."""
    dtype = CACHE_TYPES[options.cache_type]
    if dtype is not f32 and not narrow_caches(module, dtype):
        raise UsageError(
            f"the model has no caches of keys and values to keep in {options.cache_type}",
            help="leave cache_type out: it is for GGUF files and Hugging Face folders",
        )


def check_kept(
    source: Source, options: Options, ahead: Sequence[object], refused: Mapping[str, str]
) -> None:
    """Refuse to keep state in a model that would have several versions, each with its own."""
    keeps = bool(options.state or source.state)
    if not keeps or (len(ahead) == 1 and isinstance(ahead[0], Version)):
        return
    raise one_program(refused)


def one_program(refused: Mapping[str, str]) -> UsageError:
    """The error about state in a model of several versions, with reasons by dimension."""
    return UsageError(
        "a model that keeps state must be one program for all shapes",
        excerpt=[f"dimension {name!r}: {reason}" for name, reason in refused.items()],
        help="give an extent or bounds of every dimension: dims={'past': (0, 1023), 'batch': 1}",
    )
