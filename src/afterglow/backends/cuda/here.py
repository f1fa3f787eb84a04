"""The GPUs of this machine as targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.backends.cuda.driver.protocol import DeviceFacts
from afterglow.backends.cuda.session import devices
from afterglow.backends.cuda.target import DEVICE, EMULATED, KINDS, CudaTarget, kind_of
from afterglow.support.errors import AfterglowError, UsageError

FIRST = ("host", DEVICE)
"""Targets that mean the first GPU of this machine."""


def find_target(text: str) -> CudaTarget:
    """The target that a text names: a GPU of this machine, or a kind of GPU."""
    if text in KINDS:
        return KINDS[text]
    number = text.removeprefix(f"{DEVICE}:")
    if text not in FIRST and not number.isdecimal():
        return kind_of(text)
    try:
        here = targets_here()
    except AfterglowError as error:
        raise UsageError(
            f"{DEVICE} has no GPU here: {error.what}",
            help='name the kind to compile for, such as target="sm_90"; without a GPU, '
            f'target="{EMULATED}" runs kernels on the processor, to test and debug',
        ) from error
    place = 0 if text in FIRST else int(number)
    if place >= len(here):
        names = ", ".join(target.name for target in here)
        raise UsageError(f"{DEVICE} has no target {text!r}", help=f"there are {names}")
    return here[place]


def targets_here() -> Sequence[CudaTarget]:
    """Every GPU that the driver has; an error if there is no driver, or none."""
    return [_target_of(facts) for facts in devices()]


def _target_of(facts: DeviceFacts) -> CudaTarget:
    """A GPU, with the rates of its kind in proportion to its units."""
    kind = _nearest_kind(facts.arch)
    share = facts.multiprocessors / kind.units
    return replace(
        kind,
        name=f"{DEVICE}:{facts.number}",
        arch=facts.arch,
        units=facts.multiprocessors,
        shared_bytes=facts.shared_bytes,
        memory_bytes=facts.memory_bytes,
        bandwidth=facts.bandwidth or kind.bandwidth,
        tensor_flops=kind.tensor_flops * share,
        flops=kind.flops * share,
        model=facts.name,
    )


def _nearest_kind(arch: int) -> CudaTarget:
    """The kind with the largest compute capability that is not above another, or the least."""
    real = sorted((kind for kind in KINDS.values() if not kind.is_emulated), key=lambda k: k.arch)
    below = [kind for kind in real if kind.arch <= arch]
    return below[-1] if below else real[0]
