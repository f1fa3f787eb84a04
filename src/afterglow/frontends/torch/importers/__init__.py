"""Importers of PyTorch's ops, a file for each family: each file in this folder is one."""

from importlib import import_module
from pkgutil import iter_modules

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
