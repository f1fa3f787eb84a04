"""Modules of the graph IR as sources: built by hand, parsed from text, or imported and edited."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from afterglow.frontends.base import (
    Bindings,
    FileDigests,
    HostLimits,
    HostRun,
    RunBody,
    Source,
)
from afterglow.graph import Module, verify_module
from afterglow.runtime import Signature, TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import OutputForm
from afterglow.types.output_form import tensor_forms


class ModuleFrontEnd:
    """Opens modules of the graph IR."""

    def opens(self, source: Any) -> Source | None:
        """A source that copies the module each time it is loaded."""
        return ModuleSource(source) if isinstance(source, Module) else None


class ModuleSource:
    """A module with exact shapes; it is never changed."""

    path: Path | None = None

    def __init__(self, module: Module) -> None:
        verify_module(module)
        self.module = module

    def load(self, bindings: Bindings) -> tuple[Module, tuple[OutputForm, ...]]:
        """A copy; each output is a tensor."""
        if bindings.shapes or bindings.dims or bindings.values:
            raise UsageError("a module has static shapes: there is nothing to bind")
        return self.module.clone(), tensor_forms(self.output_names)

    @property
    def output_names(self) -> list[str]:
        """Those of the main function."""
        return [output.name for output in self.module.main.outputs]

    def on_host(
        self,
        wanted: Sequence[str],
        given: Iterable[str],
        values: Mapping[str, Any],
        run_body: RunBody,
        limits: HostLimits,
    ) -> HostRun:
        """Refuse: shapes in a module are exact."""
        raise _exact()

    @property
    def graph(self) -> Module:
        """Refuse: it has no host nodes."""
        raise _exact()

    def body_source(self, body: Any, given: Collection[str]) -> Source | None:
        """Refuse: the host drives no bodies of a module."""
        raise _exact()

    def digest(self, files: FileDigests) -> str | None:
        """None: a module built by hand is compiled as quickly as it would be digested."""
        return None

    def files(self) -> list[Path]:
        """None: it is in memory."""
        return []

    def signature(self, bindings: Bindings) -> Signature:
        """The main function's."""
        main = self.module.main
        return Signature(
            tuple(TensorInfo.of(v.name, v.type) for v in main.inputs),
            tuple(TensorInfo.of(o.name, o.value.type) for o in main.outputs),
        )


def _exact() -> UsageError:
    return UsageError("a module has static shapes: there is nothing to partition")
