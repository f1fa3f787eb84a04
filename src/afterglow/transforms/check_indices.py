"""Indices that are known to be out of range are found when compiling."""

from __future__ import annotations

from afterglow.graph import Function
from afterglow.graph.index_check import check_constants
from afterglow.passes import Pass


class CheckIndices(Pass):
    """Constants that nodes take as indices are in range; otherwise it is an error, with the node.

    Only of the main function: a body may never run, and tells when it does.
    """

    name = "check-indices"

    def run(self, function: Function) -> bool:
        """See the class."""
        if function is not function.module.main:
            return False
        escaping = {id(value) for value in function.escaping()}
        for node in function.nodes:
            if any(result.use_count or id(result) in escaping for result in node.results):
                check_constants(node)
        return False
