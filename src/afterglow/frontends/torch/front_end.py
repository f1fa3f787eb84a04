"""The PyTorch front end, as the registry knows it: it imports `torch` when a program is opened."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.torch import importers, program
from afterglow.frontends.torch.registry import TORCH

__all__ = ["TorchFrontEnd", "importers", "program"]

_PROGRAM = "torch.export.exported_program.ExportedProgram"


class TorchFrontEnd:
    """Opens exported programs."""

    name = "torch"
    reads = "PyTorch"
    dialect = TORCH

    def opens(self, source: Any) -> Source | None:
        """A source that takes the program apart once."""
        if not _is_a(source, _PROGRAM):
            return None
        # here, because only those who have PyTorch have programs of it
        from afterglow.frontends.torch.source import TorchSource  # noqa: PLC0415

        return TorchSource(source)


def _is_a(value: Any, name: str) -> bool:
    """Whether a value is of a class of this name, or one derived from it."""
    return any(f"{each.__module__}.{each.__qualname__}" == name for each in type(value).__mro__)
