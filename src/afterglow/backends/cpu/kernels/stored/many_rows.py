"""Products of many rows with a stored matrix: panels become floats, then register tiles."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.gemm import Gemm, keeps_tiles
from afterglow.backends.cpu.kernels.matmul.plan import GemmPlan, PanelReading, plan_with
from afterglow.backends.cpu.kernels.matmul.problem import GemmProblem, product_problem
from afterglow.backends.cpu.kernels.stored.panels import PanelPointers, StoredPanels
from afterglow.backends.cpu.kernels.table import DIRECT
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.ops.linear import MatMul
from afterglow.types.dtype import f32
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
    panels = StoredPanels.of(r.step, tile.columns, tile.lanes)
    plan = replace(
        plan_with(tile, problem, r.target),
        reading=PanelReading.DEQUANTIZED,
        panel_dtype=f32,
        used=used,
    )
    scratch = {"panel": Storage(f32, panels.words * panels.per_word * tile.columns)}
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
        at, own = self.pointers.panel(panel), self.panels
        span = own.block_size // own.per_word if own.block_size else own.words
        whole = own.words // span
        with self.e.loop(whole, name="block") as block:
            self._block(at, block, span)
        if rest := own.words - whole * span:
            self._block(at, self.e.index(whole), rest, span)
        return self.rhs

    def _block(self, at: PanelPointers, block: Value, count: int, span: int | None = None) -> None:
        """Dequantize the first words of a block, of which whole ones have `span`."""
        own, lanes = self.panels, self.panels.lanes
        scales, zeros = at.scales(block), at.zeros(self.e, block)
        with self.e.loop(count, name="word") as index:
            word = block * (span or count) + index
            made = self.rhs + word * (own.per_word * own.width)
            for v, words in enumerate(at.word_vectors(word)):
                for place in range(own.per_word):
                    numbers = own.number(words, own.bits * place) - zeros[v]
                    made.store(convert(numbers, f32) * scales[v], place * own.width + v * lanes)
