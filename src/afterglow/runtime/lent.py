"""Inputs that a run may overwrite, and those that it must not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.types import Array, Interface


def spare_lent(
    interface: Interface, inputs: Sequence[Array], states: Mapping[str, Array]
) -> list[Array]:
    """The inputs, with copies of those that would be overwritten but must not be."""
    if not any(port.lent for port in interface.inputs):
        return list(inputs)
    others = [*inputs, *states.values()]
    return [
        array.copy() if port.lent and not _is_lendable(array, others) else array
        for port, array in zip(interface.inputs, inputs, strict=True)
    ]


def _is_lendable(array: Array, others: Sequence[Array]) -> bool:
    """Whether an array may be overwritten: nothing forbids it, and no other array shows it."""
    sharing = [other for other in others if np.may_share_memory(array, other)]
    return array.flags.writeable and len(sharing) <= 1  # one of them is itself
