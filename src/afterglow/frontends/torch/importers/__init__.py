"""Importers of PyTorch's ops, a file for each family; all are loaded, so that the table is full."""

from importlib import import_module
from pkgutil import iter_modules

from afterglow.frontends.torch.registry import TORCH

__all__ = ["TORCH"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
