"""Many modules become one object file, in which only the public functions are seen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from afterglow.backends.cpu.bundle.frames import ASK, StackBound, measure_frames
from afterglow.backends.cpu.llvm.compile import Compilation
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class BundlePart:
    """Modules that call each other by name; other parts see only what is shared."""

    texts: Sequence[str]
    shared: Collection[str]


@dataclass(frozen=True)
class Joined:
    """An object file, and the stack that its functions need."""

    object: bytes
    stack: StackBound


def join(parts: Sequence[BundlePart], public: Collection[str], target: Target) -> Joined:
    """Link all modules into one and generate its code."""
    first, *others = parts
    with Compilation(first.texts[0], target) as compilation:
        module = compilation.module
        _link(compilation, module, first)
        for part in others:
            other = compilation.parse(part.texts[0])
            _link(compilation, other, part)
            module.link_in(other)
        _hide(module, public)
        compilation.verify()
        text = str(module)
        code, frames = measure_frames(lambda: compilation.emit(as_object=True))
    return Joined(code, StackBound(text, frames))


def asking(text: str, *, small: bool) -> str:
    """A module that LLVM reports the sizes of frames for; optimised for size if `small`."""
    attributes = f"nounwind {ASK} minsize optsize" if small else f"nounwind {ASK}"
    return text.replace("attributes #0 = { nounwind", f"attributes #0 = {{ {attributes}", 1)


def _link(compilation: Compilation, module: Any, part: BundlePart) -> None:
    """Link the other modules of a part into its first one."""
    for text in part.texts[1:]:
        module.link_in(compilation.parse(text))
    _hide(module, part.shared)


def _hide(module: Any, public: Collection[str]) -> None:
    """Make local what is defined and not public; equal names of other modules are other things."""
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and symbol.name not in public:
            symbol.linkage = "internal"
