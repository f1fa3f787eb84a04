"""The left factors: quarters of lhs and sums of them, each a matrix of its own in one memory."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.strassen.plan import PRODUCTS, StrassenPlan
from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value
from afterglow.backends.cpu.micro.kernel import Kernel
from afterglow.types.dtype import f32


def write_sums(k: Kernel, plan: StrassenPlan) -> None:
    """Write the phase that makes the factors of all rows; a unit is a pair of rows."""
    product = plan.product
    work = plan.sum_cost * product.rows * product.depth
    with k.phase(plan.half_rows * plan.used, work, "sums") as p:
        lhs = p.pointer(product.lhs)
        to = p.workspace("factors")
        with p.units() as row:
            write_pair(p.e, plan, lhs, row, to + row * plan.line)


def write_pair(e: Emitter, plan: StrassenPlan, lhs: Pointer, row: Value, to: Pointer) -> None:
    """Make one row of each factor, of a row of lhs and the one that it is paired with."""
    product = plan.product
    lower = product.rows - plan.half_rows
    pair = _Pair(e, plan, to, lhs + product.places.offset(row))
    with e.when(row < lower):
        lower_row = lhs + product.places.offset(row + plan.half_rows)
        pair.write(lower_row.settled() if plan.is_ranged else lower_row)
    if plan.is_ranged or lower < plan.half_rows:
        with e.when(row >= lower):
            pair.write(None)


class _Pair:
    """A row of each factor, made from a pair of rows."""

    def __init__(self, e: Emitter, plan: StrassenPlan, to: Pointer, upper: Pointer) -> None:
        self.e, self.plan, self.upper = e, plan, upper
        self.to = [to + number * plan.factor for number in range(PRODUCTS)]
        if plan.is_ranged:
            self.upper, self.to = upper.settled(), [place.settled() for place in self.to]

    def write(self, lower: Pointer | None) -> None:
        """Whole vectors, then elements; those that a half lacks are zeros."""
        left, right = self.plan.half_depth, self.plan.product.depth - self.plan.half_depth
        lanes = self.e.lanes(f32)
        whole = right - right % lanes
        with self.e.loop(whole, step=lanes, name="k") as k:
            self._put(lower, k, lanes)
        with self.e.loop(right, start=whole, name="k") as k:
            self._put(lower, k, 1)
        if right < left:
            self._put(lower, self.e.index(right), 1, last=True)

    def _put(self, lower: Pointer | None, k: Value, lanes: int, *, last: bool = False) -> None:
        """Neighbouring elements of each factor, in the order of the products."""
        zero, half = self.e.constant(f32, 0, lanes), self.plan.half_depth
        upper = self.upper + k
        a11, a12 = upper.load(0, lanes), zero if last else upper.load(half, lanes)
        a21 = a22 = zero
        if lower is not None:
            a21 = (lower + k).load(0, lanes)
            a22 = zero if last else (lower + k).load(half, lanes)
        s1 = a21 + a22
        s2 = s1 - a11
        factors = (s1, a11, a12, s2, a12 - s2, a11 - a21, a22)
        for to, factor in zip(self.to, factors, strict=True):
            to.store(factor, k)
