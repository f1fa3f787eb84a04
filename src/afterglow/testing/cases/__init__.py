"""Cases of every op: each family of ops has a module with a list `CASES`."""

from __future__ import annotations

import importlib
import pkgutil

from afterglow.testing.cases.case import Case

__all__ = ["CASES", "Case"]

_FAMILIES = sorted(found.name for found in pkgutil.iter_modules(__path__) if found.name != "case")

CASES: list[Case] = [
    case for family in _FAMILIES for case in importlib.import_module(f"{__name__}.{family}").CASES
]
"""Every case of every op, family by family."""
