"""Donated inputs: arrays whose memory a run may overwrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.runtime.buffers import host_array
from afterglow.runtime.device import DeviceBuffer
from afterglow.types import Array, Interface


def donatable(
    interface: Interface, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
) -> list[Array]:
    """The inputs of a run, with copies in place of donated ones that must not be overwritten."""
    if not any(port.donated for port in interface.inputs):
        return list(inputs)
    others = [*inputs, *map(host_array, states.values())]
    return [
        array.copy() if port.donated and not _may_be_donated(array, others) else array
        for port, array in zip(interface.inputs, inputs, strict=True)
    ]


def _may_be_donated(array: Array, others: Sequence[Array]) -> bool:
    """Whether an array may be overwritten: nothing forbids it, and no other array shows it."""
    sharing = [other for other in others if np.may_share_memory(array, other)]
    return array.flags.writeable and len(sharing) <= 1  # one of them is itself
