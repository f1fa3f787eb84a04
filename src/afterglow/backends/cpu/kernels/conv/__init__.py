"""Convolutions: which way each is computed, and under which name."""

from __future__ import annotations

from afterglow.backends.cpu.candidate import Candidate
from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.kernels.conv.choose import choose_plan, plain_cost, ways_of
from afterglow.backends.cpu.kernels.conv.depthwise import is_depthwise, write_depthwise
from afterglow.backends.cpu.kernels.conv.dots import suits_dots, write_dots
from afterglow.backends.cpu.kernels.conv.geometry import conv_of
from afterglow.backends.cpu.kernels.conv.padding import needs_copy, write_padded
from afterglow.backends.cpu.kernels.conv.product import write_product
from afterglow.backends.cpu.kernels.conv.winograd import write_winograd
from afterglow.backends.cpu.kernels.strassen import StrassenPlan, write_strassen
from afterglow.backends.cpu.table import kernel
from afterglow.backends.cpu.target import Target
from afterglow.backends.policy import Policy
from afterglow.instr import OpInstr
from afterglow.ops.convolution import Conv


def _name(step: OpInstr) -> str:
    """The extents of the windows, and what is particular: `conv_3x3_s2`."""
    conv, weight = conv_of(step), step.ins[1]
    assert weight is not None
    parts = ["conv", "x".join(map(str, weight.type.shape[1:-1]))]
    if max(conv.strides) > 1:
        parts.append("s" + "x".join(map(str, dict.fromkeys(conv.strides))))
    if max(conv.dilations) > 1:
        parts.append("dilated")
    if conv.groups > 1 and is_depthwise(step):
        parts.append("depthwise")
    elif conv.groups > 1:
        parts.append("grouped")
    return "_".join(parts)


def _candidates(step: OpInstr, target: Target, policy: Policy) -> list[Candidate]:
    if conv_of(step).groups > 1 and is_depthwise(step):
        return [Candidate("depthwise", plain_cost(step))]
    return [*ways_of(step, target, policy)]


@kernel(Conv, name=_name, candidates=_candidates)
def write_conv(k: Kernel) -> None:
    """Write the kernel of a convolution."""
    if conv_of(k.step).groups > 1 and is_depthwise(k.step):
        write_depthwise(k)
        return
    plan = choose_plan(k)
    if isinstance(plan, StrassenPlan):
        write_strassen(k, plan)
        return
    if plan is not None:
        write_winograd(k, plan)
        return
    if needs_copy(k.step):
        write_padded(k)
    if suits_dots(k.step, k.target):
        write_dots(k)
    else:
        write_product(k)
