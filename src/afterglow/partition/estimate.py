"""How long the steps of a planned program take on a device, by the device's rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from afterglow.graph import Op
from afterglow.instr import (
    ON_HOST,
    Buffer,
    Copy,
    Instr,
    KernelPlan,
    OpInstr,
    Prefetch,
    Program,
    Region,
    Stack,
    ops_of,
)
from afterglow.instr.bind import bind_program
from afterglow.instr.program import dims_of_program
from afterglow.ops.control import If, Scan
from afterglow.ops.convolution import Convolution
from afterglow.ops.flops import PRODUCTS, step_flops
from afterglow.ops.indexing import LOOKUPS
from afterglow.ops.movement import Transpose
from afterglow.ops.recurrence import Recurrent
from afterglow.runtime.rates import Rates

NARROW = 16
"""Columns or channels of a result below which vectors have lanes to spare."""
NEEDED = 0.5
"""How often a step is needed that is skipped where its predicate is false."""
TRANSPOSED = "transpose"
"""What a copy counts as in which neighbours do not stay neighbours."""


def estimate_seconds(program: Program, rates: Rates) -> float:
    """Seconds of one run of a planned program on a device, on arrays of the host."""
    moved = sum(map(rates.transfer, (b.type.nbytes for b in (*program.inputs, *program.outputs))))
    return rates.run_seconds + moved + sum(estimate_steps(program, rates))


def estimate_steps(program: Program, rates: Rates, working_set: int | None = None) -> list[float]:
    """Seconds of each instruction of a planned program, in its order.

    Extents that are ranges count as their largest. `working_set` are the bytes that are used
    again and again, if there is more of it than the program's own constants and arena: they
    decide from where constants are read.
    """
    extents = {dim.name: dim.high for dim in dims_of_program(program)}
    bound = bind_program(program, extents)
    own = sum(b.type.nbytes for b in bound.constants) + (program.arena_bytes or 0)
    estimate = _Estimate(rates, own if working_set is None else working_set)
    return [estimate.step(step) for step in bound.body]


class _Estimate:
    """The estimates for one program."""

    def __init__(self, rates: Rates, working_set: int) -> None:
        self.rates = rates
        self.working_set = working_set

    def step(self, step: Instr) -> float:
        """Seconds of an instruction."""
        if not isinstance(step, (OpInstr, Stack, Copy, Prefetch)) or _is_empty(step):
            return 0.0
        if runs_on_host(step):
            return self.rates.host_step_seconds + 2 * self._moving(step)
        if isinstance(step, OpInstr) and step.bodies:
            return self.rates.step_seconds + self._control(step)
        busy = max(self._multiplying(step), self._moving(step)) + self._computing(step)
        skipped = any(member.predicate is not None for member in ops_of(step))
        return self.rates.step_seconds + busy * (NEEDED if skipped else 1.0)

    def _control(self, step: OpInstr) -> float:
        """The longer branch, or an iteration of a body as often as there may be one."""
        bodies = [sum(map(self.step, body.body)) for body in step.bodies]
        if isinstance(step.op, If):
            return max(bodies)
        return sum(bodies) * _iterations(step)

    def _multiplying(self, step: Instr) -> float:
        """Seconds of the product in a step, while its operands come from memory."""
        product, _ = product_of(step)
        if self.rates.is_stated:
            plan = plan_of(step)
            return (step_flops(step) if plan is None else plan.cost) / self.rates.flops
        if product is None:
            return 0.0
        return product_work(step) / self.rates.product_rate(kind_of(product, plan_of(step)))

    def _computing(self, step: Instr) -> float:
        """Seconds of the ops in a step that are no products, once their operands are there."""
        if isinstance(step, (Copy, Prefetch)):
            turns = step.dest.strides[-1:] != step.src.strides[-1:]
            return _units(step.dest) / self.rates.element_rate(TRANSPOSED) if turns else 0.0
        _, others = product_of(step)
        return sum(
            elements_of(each) / self.rates.element_rate(each.op.mnemonic, family_of(each.op))
            for each in others
        )

    def _moving(self, step: Instr) -> float:
        """Seconds in which operands and results come from memory and go there."""
        lasting = passing = 0
        for buffer, nbytes in _traffic(step):
            if buffer.root.region in (Region.CONSTANT, Region.STATE):
                lasting += nbytes
            else:
                passing += nbytes
        repeated = sum(map(_repeated_bytes, ops_of(step)))
        return (
            lasting / self.rates.read_bandwidth(self.working_set)
            + passing / self.rates.bandwidth(passing)
            + repeated / self.rates.read_bandwidth(lasting)
        )


def plan_of(step: Instr) -> KernelPlan | None:
    """The plan of an instruction that has one."""
    return step.plan if isinstance(step, (OpInstr, Stack)) else None


def runs_on_host(step: Instr) -> bool:
    """Whether a step is planned to be run by the host."""
    plan = plan_of(step)
    return plan is not None and plan.algorithm == ON_HOST


def product_of(step: Instr) -> tuple[OpInstr | None, Sequence[OpInstr]]:
    """The op of a step that is a product, if there is one, and the others."""
    members = ops_of(step)
    product = next((member for member in members if isinstance(member.op, PRODUCTS)), None)
    return product, [member for member in members if member is not product]


def product_work(step: Instr) -> float:
    """FLOPs of a step with a product: fewer than by its definition, if its algorithm says so."""
    flops, plan = step_flops(step), plan_of(step)
    return min(plan.cost, flops) if plan is not None and plan.cost else flops


def kind_of(step: OpInstr, plan: KernelPlan | None) -> str:
    """The kind of kernel that a product is computed by, as `Rates.products` calls it."""
    algorithm = "" if plan is None else plan.algorithm
    elements = next((b.type.dtype for b in step.ins if b is not None), None)
    width = "" if elements is None else f"{'f' if elements.is_float else 'i'}{elements.bits}"
    words = [step.op.mnemonic, width, algorithm]
    if isinstance(step.op, Convolution) and step.op.groups == step.required[0].type.shape[-1] > 1:
        words.append("depthwise")
    if step.required[1].root.region is Region.CONSTANT:
        words.append("constant")
    if step.outs[0].type.shape[-1] < NARROW:
        words.append("narrow")
    return "/".join(dict.fromkeys(words))


def family_of(op: Op) -> str:
    """The name of the rate that ops of one family share: each has a file in the catalogue."""
    return f"{type(op).__module__.rpartition('.')[2]}/*"


def elements_of(step: OpInstr) -> float:
    """The elements that an op computes or looks at, whichever are more.

    What is only moved counts in units of four bytes, and as nothing if neighbours stay neighbours.
    """
    op, out = step.op, step.outs[0]
    if isinstance(op, LOOKUPS):
        return _units(out)
    if op.moves_only:
        stays = isinstance(op, Transpose) and op.perm[-1:] == (len(op.perm) - 1,)
        return 0.0 if stays else _units(out)
    operands = [None if b is None else b.type for b in step.ins]
    sizes = [b.type.size for b in (*step.outs, *step.ins) if b is not None]
    return float(max(*sizes, op.work(out.type, operands)))


def _units(buffer: Buffer) -> float:
    """The size of a buffer in units of four bytes."""
    return buffer.type.nbytes / 4


def _traffic(step: Instr) -> Iterator[tuple[Buffer, int]]:
    """The buffers that an instruction reads and writes, with the bytes of each."""
    found = dict.fromkeys(buffer for _, buffer in step.accesses())
    rows = {m.ins[0]: m.outs[0].type.nbytes for m in ops_of(step) if isinstance(m.op, LOOKUPS)}
    for buffer in found:
        yield buffer, min(buffer.type.nbytes, rows.get(buffer, buffer.type.nbytes))


def _repeated_bytes(step: OpInstr) -> int:
    """Bytes of weights that each step of a recurrence reads again."""
    if not isinstance(step.op, Recurrent):
        return 0
    x, _, recurrence = step.required
    return (x.type.shape[0] - 1) * recurrence.type.nbytes


def _iterations(step: OpInstr) -> int:
    """How often the body of a loop runs: its limit if that is known, else once."""
    if isinstance(step.op, Scan):
        return step.op.length
    limit = step.ins[0]
    if limit is not None and limit.data is not None and limit.data.size == 1:
        return max(0, int(limit.data.reshape(-1)[0]))
    return 1


def _is_empty(step: Instr) -> bool:
    written = [buffer for access, buffer in step.accesses() if access.writes]
    return not any(buffer.type.size for buffer in written)
