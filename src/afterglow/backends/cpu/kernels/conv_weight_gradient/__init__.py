"""The gradient of a convolution's weight."""

from __future__ import annotations

from functools import partial

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv_weight_gradient.depthwise import (
    DepthwisePlan,
    write_depthwise,
)
from afterglow.backends.cpu.kernels.conv_weight_gradient.plan import WeightGradientPlan
from afterglow.backends.cpu.kernels.conv_weight_gradient.products import write_products
from afterglow.backends.cpu.kernels.conv_weight_gradient.winograd import (
    suits_winograd,
    winograd_algorithms,
)
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms
from afterglow.backends.cpu.micro.cost import WINOGRAD_GAIN
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.instr import OpInstr
from afterglow.instr.kernel_plan import Setting
from afterglow.ops.convolution import ConvWeightGradient


def _name(step: OpInstr) -> str:
    """The extents of the windows, and their strides: `conv_weight_gradient_3x3_s2`."""
    op = step.op
    assert isinstance(op, ConvWeightGradient)
    extents = "x".join(map(str, op.kernel))
    return f"{op.mnemonic}_{extents}" + (f"_s{max(op.strides)}" if max(op.strides) > 1 else "")


@algorithms(ConvWeightGradient, name=_name)
def weight_gradient(r: KernelRequest) -> list[Algorithm]:
    """Products of slopes with packed columns, or Winograd's; of single channels as they are."""
    plan = WeightGradientPlan(r.step, r.target)
    if plan.inner == plan.results == 1 < plan.groups:
        apart = DepthwisePlan(plan)
        multiply = partial(write_depthwise, plan=apart)
        return [Algorithm("depthwise", plan.cost, multiply, apart.needs)]
    settings: dict[str, Setting] = {"tile": (plan.rows, plan.panels.width), "chunks": plan.chunks}
    write = partial(write_products, plan=plan)
    waits = int(plan.joins)
    direct = Algorithm(DIRECT, plan.cost, write, plan.needs, settings, waits=waits)
    others = winograd_algorithms(r.step, plan) if suits_winograd(r.step, plan) else []
    faster = bool(others) and others[0].shared_cost * WINOGRAD_GAIN < direct.shared_cost
    return [*others, direct] if faster else [direct, *others]
