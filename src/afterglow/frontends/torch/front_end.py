"""The PyTorch front end, as the registry knows it: it imports `torch` when a program is opened."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source, Traced
from afterglow.frontends.content import Content
from afterglow.frontends.definition.dialect import Dialect
from afterglow.support.errors import UsageError

_PROGRAM = "torch.export.exported_program.ExportedProgram"
_MODULE = "torch.nn.modules.module.Module"
_ARCHIVE = (b"models/model.json", b"serialized_exported_program.json")
"""Files in the archives that `torch.export.save` writes: one of them."""


class TorchFrontEnd:
    """Opens exported programs, and the files that `torch.export.save` writes."""

    name = "torch"
    reads = "PyTorch"

    @property
    def dialect(self) -> Dialect:
        """The table of ATen's ops, which nothing needs before there is a program of PyTorch."""
        from afterglow.frontends.torch.importers import TORCH  # noqa: PLC0415

        return TORCH

    def opens(self, source: Any) -> Source | None:
        """A source that takes the program apart once."""
        if isinstance(source, Content):
            return _load(source) if _is_archive(source) else None
        if isinstance(source, Traced):
            return _traced(source) if _is_torch(source.model) else None
        if _is_a(source, _MODULE):
            raise UsageError(
                "a module of PyTorch is traced with example inputs",
                help="give some: afterglow.compile(module, (x,)), or a dictionary by name",
            )
        return from_torch(source) if _is_a(source, _PROGRAM) else None


def from_torch(model: Any, example_inputs: Any = None, *, dynamic_shapes: Any = None) -> Source:
    """A program or module of PyTorch as a model that all functions take: see docs/pytorch.md.

    Args:
        model: a `torch.export.ExportedProgram`, or a `torch.nn.Module`, which is exported as it
            is in evaluation mode.
        example_inputs: what the module is called with: a tuple of its arguments, a dictionary of
            them by name, or one tensor. A program needs none.
        dynamic_shapes: which extents of the inputs are dynamic, as `torch.export.export` takes it.
    """
    if not _is_torch(model):
        raise UsageError(
            f"a {type(model).__name__} is no model of PyTorch",
            help="give a torch.nn.Module or a torch.export.ExportedProgram",
        )
    return _traced(Traced(model, example_inputs, dynamic_shapes))


def _traced(given: Traced) -> Source:
    # here, because only those who have PyTorch have programs of it
    from afterglow.frontends.torch.source import TorchSource, export_module  # noqa: PLC0415

    if _is_a(given.model, _MODULE):
        return TorchSource(export_module(given.model, given.inputs, given.dynamic_shapes))
    if given.inputs is not None or given.dynamic_shapes is not None:
        raise UsageError("an exported program takes no example inputs: it was traced with some")
    return TorchSource(given.model)


def _load(content: Content) -> Source:
    try:
        # here, because only those who have programs of PyTorch need it
        from afterglow.frontends.torch.source import TorchFile  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"a program of PyTorch is read by PyTorch, which cannot be imported: {error}",
            where="" if content.path is None else f"in {content.path}",
            help="install it: pip install 'afterglow[torch]'",
        ) from None
    return TorchFile(content)


def _is_archive(content: Content) -> bool:
    """Whether it is a zip archive that has the file of a program."""
    is_zip = content.head.startswith(b"PK\3\4")
    return is_zip and any(name in content.tail or name in content.head for name in _ARCHIVE)


def _is_torch(model: Any) -> bool:
    return _is_a(model, _MODULE) or _is_a(model, _PROGRAM)


def _is_a(value: Any, name: str) -> bool:
    """Whether a value is of a class of this name, or one derived from it."""
    return any(f"{each.__module__}.{each.__qualname__}" == name for each in type(value).__mro__)
