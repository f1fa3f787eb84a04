"""Bundling as the backend offers it: from planned programs to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from afterglow.backends.backend import Backend, Settings
from afterglow.backends.capabilities import BundleEntry, BundleExtent
from afterglow.backends.cpu.bundle.build import (
    BundleOptions,
    Planned,
    build_bundle,
    refuse_host_steps,
)
from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.files import identifier, write_bundle
from afterglow.backends.cpu.bundle.reference import reference_outputs, reference_target
from afterglow.backends.cpu.codegen.kernel_cache import caching_compiler
from afterglow.backends.cpu.target import Target
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.runtime.text_metadata import TEXT, TextMetadata
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.names import NameScope
from afterglow.types import Array

MakeBackend: TypeAlias = Callable[[Settings], Backend]

_TAKEN = ("pool", "main", "afterglow")
"""Names that files and functions of a bundle have anyway."""


@dataclass(frozen=True)
class CpuBundle:
    """Programs as one object file, ready to be written."""

    code: BundleCode

    def write(self, folder: Path, *, shared: bool, force: bool, never: Sequence[Path]) -> Bundle:
        """Write all files of the bundle into a folder."""
        return write_bundle(self.code, folder, shared=shared, force=force, never=never)


@dataclass(frozen=True)
class Bundler:
    """Compiles programs into bundles, within settings; `make` makes the backend for others."""

    make: MakeBackend
    settings: Settings

    def bundle(
        self,
        name: str,
        entries: Sequence[BundleEntry],
        extents: Sequence[BundleExtent],
        request: BundleRequest,
    ) -> CpuBundle:
        """Programs that are planned for the target as one object."""
        symbol = c_name(name)
        unchecked = self.settings.policy.unchecked
        options = BundleOptions(
            request.embed_weights, request.freestanding, request.small, unchecked
        )
        prefixes = [_joined(symbol, entry.suffix) for entry in entries]
        planned = [
            self._planned(entry, prefix) for entry, prefix in zip(entries, prefixes, strict=True)
        ]
        scope = NameScope()
        named = [replace(e, name=scope.claim(identifier(e.name))) for e in extents]
        target = Target.of(self.settings.target)
        code = build_bundle(symbol, planned, target, options, named)
        attached = request.attachments.get(TEXT)
        return CpuBundle(
            replace(code, text=TextMetadata.from_bytes(attached) if attached else None)
        )

    def _planned(self, entry: BundleEntry, prefix: str) -> Planned:
        refuse_host_steps(entry.program)
        expected = self._expected(entry)
        return Planned(entry.program, entry.input_names, entry.output_names, prefix, expected)

    def _expected(self, entry: BundleEntry) -> Sequence[Array]:
        """What the self-check of a program expects, computed by code for another target."""
        reference = reference_target()
        target = self.settings.target if reference is None else reference
        entry.replan(self.make(replace(self.settings, target=target)))
        compiled = caching_compiler(self.settings.kernels)
        expected = reference_outputs(entry.program, reference, compiled)
        entry.replan(self.make(self.settings))
        return expected


def c_name(name: str) -> str:
    """A name as C spells it, unless the files or functions of a bundle have it."""
    spelled = identifier(name)
    return f"{spelled}_model" if spelled in _TAKEN else spelled


def _joined(symbol: str, suffix: str) -> str:
    return f"{symbol}_{suffix}" if suffix else symbol
