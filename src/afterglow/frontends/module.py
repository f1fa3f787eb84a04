"""Modules of the graph IR as sources: built by hand, parsed from text, or imported and edited."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from afterglow.frontends.base import (
    Bindings,
    FileDigests,
    HostLimits,
    HostRun,
    KeptState,
    RunBody,
    Source,
    UnboundDimensionsError,
)
from afterglow.graph import Module, verify_module
from afterglow.runtime import Signature, TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import OutputForm
from afterglow.types.extent import Dim, dims_of, is_ranged, largest, smallest
from afterglow.types.output_form import tensor_forms


class ModuleFrontEnd:
    """Opens modules of the graph IR."""

    name = "module"
    dialect: None = None
    reads = ""

    def opens(self, source: Any) -> Source | None:
        """A source that copies the module each time it is loaded."""
        return ModuleSource(source) if isinstance(source, Module) else None


class ModuleSource:
    """A module whose shapes are exact, or have dimensions that are bound; it is never changed."""

    path: Path | None = None

    def __init__(self, module: Module) -> None:
        verify_module(module)
        self.module = module

    def load(self, bindings: Bindings) -> tuple[Module, tuple[OutputForm, ...]]:
        """A copy with extents for its free dimensions; each output is a tensor."""
        if bindings.values:
            raise UsageError("a module has static shapes: there are no values to bind")
        extents = self._extents(bindings)
        free = [dim.name for dim in self._dims if dim.is_free and dim.name not in extents]
        if free:
            raise self._unbound(free)
        return self.module.bind(extents), tensor_forms(self.output_names)

    def _extents(self, bindings: Bindings) -> dict[str, int]:
        """The extents that dimensions are bound to, by name."""
        found: dict[str, int] = {}
        for name, extent in self._given(bindings):
            dim = next((dim for dim in self._dims if dim.name == name), None)
            if dim is None:
                raise _unknown(name, self._dims)
            if found.setdefault(name, extent) != extent:
                raise UsageError(f"dimension {name!r} is bound to {found[name]} and to {extent}")
            if not dim.low <= smallest(extent) <= largest(extent) <= dim.high:
                raise UsageError(f"dimension {name!r} is {extent}, out of {dim.range_text}")
        return found

    def _given(self, bindings: Bindings) -> Iterator[tuple[str, int]]:
        """Dimensions with their extents: given by name, or by the shape of an input."""
        yield from bindings.dims.items()
        inputs = {value.name: value.type for value in self.module.main.inputs}
        for name, shape in bindings.shapes.items():
            if name not in inputs:
                raise UsageError(f"no input {name!r}", help=f"there are {', '.join(inputs)}")
            own = inputs[name].shape
            if len(own) != len(shape) or any(
                a != b for a, b in zip(own, shape, strict=True) if not is_ranged(a)
            ):
                raise UsageError(f"input {name!r} is {inputs[name]}, not {tuple(shape)}")
            yield from ((str(a), b) for a, b in zip(own, shape, strict=True) if is_ranged(a))

    @cached_property
    def _dims(self) -> tuple[Dim, ...]:
        """The dimensions that shapes of inputs depend on."""
        return dims_of(
            *(extent for value in self.module.main.inputs for extent in value.type.shape)
        )

    def _unbound(self, free: Sequence[str]) -> UnboundDimensionsError:
        inputs = [v for v in self.module.main.inputs if {*map(str, v.type.shape)} & {*free}]
        listed = ", ".join(f"{value.name}: {value.type}" for value in inputs)
        example = ", ".join(f"{name!r}: 1" for name in free)
        return UnboundDimensionsError(
            f"the module has inputs with free dimensions: {listed}",
            f"bind them, for example dims={{{example}}}",
            [value.name for value in inputs],
            free,
        )

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

    @property
    def state(self) -> tuple[KeptState, ...]:
        """None: a module has its state in it."""
        return ()

    def files(self) -> list[Path]:
        """None: it is in memory."""
        return []

    @property
    def attachments(self) -> Mapping[str, bytes]:
        """None."""
        return {}

    def signature(self, bindings: Bindings) -> Signature:
        """The main function's."""
        extents = self._extents(bindings)
        main = (self.module.bind(extents) if extents else self.module).main
        return Signature(
            tuple(TensorInfo.of(v.name, v.type) for v in main.inputs),
            tuple(TensorInfo.of(o.name, o.value.type) for o in main.outputs),
        )


def _unknown(name: str, dims: Sequence[Dim]) -> UsageError:
    if not dims:
        return UsageError("a module has static shapes: there is nothing to bind")
    listed = ", ".join(repr(dim.name) for dim in dims)
    return UsageError(f"no input has a dynamic dimension {name!r}: there are {listed}")


def _exact() -> UsageError:
    return UsageError("a module has static shapes: there is nothing to partition")
