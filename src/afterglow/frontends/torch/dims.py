"""Names for the dynamic dimensions of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from afterglow.frontends.definition.model import DeclaredExtent

_SYMBOL = re.compile(r"[A-Za-z_]\w*")


class DimNames:
    """What the symbols in shapes of inputs are called: as the user named them, where they did.

    Others are called by the first axis that is such a symbol: `x_dim_1`. Shapes that are computed
    from symbols, such as `2*s77`, are expressions over those names.
    """

    def __init__(self, inputs: Iterable[tuple[str, Any]]) -> None:
        tensors = [(name, value) for name, value in inputs if isinstance(value, torch.Tensor)]
        self.names: dict[str, str] = {}
        for _, tensor in tensors:
            for extent in tensor.shape:
                self._learn_given(extent)
        for name, tensor in tensors:
            for axis, extent in enumerate(tensor.shape):
                if not isinstance(extent, int) and _SYMBOL.fullmatch(str(extent)):
                    self.names.setdefault(str(extent), f"{name}_dim_{axis}")
        self.whole: dict[str, str] = {}
        """Names of expressions over symbols that no axis has alone."""
        for name, tensor in tensors:
            for axis, extent in enumerate(tensor.shape):
                if self.extent(extent) is None:
                    self.whole.setdefault(str(extent), f"{name}_dim_{axis}")

    def _learn_given(self, extent: Any) -> None:
        """Note the user's names of all symbols, which the environment of any symbol has."""
        if isinstance(extent, int) or self.names:
            return
        environment = extent.node.shape_env
        given = getattr(environment, "source_name_to_debug_name", None) or {}
        symbols = getattr(environment, "source_to_var", None) or {}
        for source, name in given.items():
            if source in symbols and _SYMBOL.fullmatch(name):
                self.names[str(symbols[source])] = name

    def extent(self, extent: Any) -> DeclaredExtent:
        """An extent as it is declared: None if it depends on data."""
        if isinstance(extent, int):
            return extent
        if not all(name in self.names for name in _SYMBOL.findall(str(extent))):
            return self.whole.get(str(extent))
        return _SYMBOL.sub(lambda found: self.names[found[0]], str(extent))
