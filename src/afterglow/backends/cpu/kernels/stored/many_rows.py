"""Products of many rows with a stored matrix: panels become floats, then register tiles."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.gemm import Gemm, keeps_tiles
from afterglow.backends.cpu.kernels.matmul.plan import GemmPlan, PanelReading, plan_with
from afterglow.backends.cpu.kernels.matmul.problem import GemmProblem, product_problem
from afterglow.backends.cpu.kernels.stored.panels import (
    CHUNK,
    QUAD,
    PanelPointers,
    StoredPanels,
)
from afterglow.backends.cpu.kernels.table import DIRECT
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    reinterpret,
)
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.ops.linear import MatMul
from afterglow.types.dtype import f32, i32
from afterglow.types.extent import largest


def stored_problem(r: KernelRequest) -> GemmProblem:
    """The product of the same extents."""
    lhs, stored, *_ = r.step.required
    return product_problem(MatMul(transpose_rhs=True), lhs, stored, r.step.outs[0].type.shape)


def many_rows_algorithm(
    r: KernelRequest, tile: RegisterTile, cost: float, used: int = 1
) -> Algorithm:
    """The product by tiles; `used` is 0 in runs without it."""
    problem = stored_problem(r)
    panels = StoredPanels.of(r.step, r.target)
    plan = replace(
        plan_with(tile, problem, r.target),
        reading=PanelReading.DEQUANTIZED,
        panel_dtype=f32,
        used=used,
    )
    scratch = {"panel": Storage(f32, panels.chunks * CHUNK * tile.columns)}
    if keeps_tiles(r, problem, tile):
        scratch["tile"] = Storage(f32, tile.rows * tile.columns)
    return Algorithm(
        DIRECT,
        cost,
        lambda k: _write(k, problem, plan, panels),
        KernelNeeds(scratch=scratch, packed=panels.parts),
        {"tile": (tile.rows, tile.vectors, tile.lanes), "blocks": largest(plan.blocks)},
    )


def _write(kernel: Kernel, problem: GemmProblem, plan: GemmPlan, panels: StoredPanels) -> None:
    units = problem.batches * plan.blocks * plan.panels * plan.used
    with kernel.phase(units, problem.work) as p:
        _StoredGemm(p, problem, plan, panels).write()


class _StoredGemm(Gemm):
    """The function that dequantizes panels, and multiplies blocks of rows by them."""

    def __init__(
        self, p: Phase, problem: GemmProblem, plan: GemmPlan, panels: StoredPanels
    ) -> None:
        self.panels, self.pointers = panels, panels.pointers(p)
        super().__init__(p, problem, plan)

    def find_rhs(self) -> Pointer:
        """The memory of the thread, which panels are written to."""
        return self.p.scratch("panel")

    def find_panel(self, batch: Index, panel: Index) -> Pointer:
        """Dequantize a panel."""
        at = self.pointers.panel(panel)
        with self.e.loop(self.panels.chunks, name="chunk") as chunk:
            words = at.chunk(chunk)
            made = self.rhs + chunk * (CHUNK * self.panels.width)
            for span in range(self.panels.spans):
                reals = _Reals(self.e, at, self.panels.block_at(chunk, span))
                for quad in self.panels.quads_of(span):
                    self._store(made, quad, reals, words.quad(quad))
        return self.rhs

    def _store(self, made: Pointer, quad: int, reals: _Reals, words: list[Value]) -> None:
        """Write the four lines of a quad."""
        for v, word in enumerate(words):
            for place in range(QUAD):
                number = reinterpret((word >> 8 * place) & 0xFF, i32)
                line = (quad * QUAD + place) * self.panels.width
                made.store(reals.of(number, v), line + v * self.panels.lanes)


class _Reals:
    """What numbers of a block stand for."""

    def __init__(self, e: Emitter, at: PanelPointers, block: Index) -> None:
        self.scales, self.minimums = at.scales(block), at.minimums(block)
        self.panels, self.zeros = at.panels, at.zeros(e, block)

    def of(self, numbers: Value, vector: int) -> Value:
        """The reals of a vector of a line."""
        found = self.panels.numbers(numbers)
        if not found.dtype.is_float:
            found = convert(found - self.zeros[vector], f32)
        reals = found * self.scales[vector]
        return reals if self.minimums is None else reals + self.minimums[vector]
