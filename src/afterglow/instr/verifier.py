"""The rules of the instruction IR, checked.

1. Names are unique; every operand is declared, allocated or a view declared before its use.
2. A buffer of the arena is allocated once, freed once at most, and used only in between.
3. Only written memory is read, element by element, except where a predicate said "not needed".
4. Constants are never written, nor are inputs, unless the caller donates them.
5. A view lies inside its buffer, and its elements are not wider: it is aligned for those.
6. An instruction's operands have the types that its op infers; a copy's sides have one type.
7. What an instruction writes overlaps none of its other operands, unless the op works in place
   and both are the very same elements.
8. The members of a stack can run tile by tile together, and keep rule 7 in each tile.
9. Every output has been written at the end.
10. Once planned, live buffers of an arena do not overlap and lie inside it.
11. A prefetch is awaited, and until then nobody uses where it goes or changes where it comes from.
12. A predicate is a boolean scalar that the instruction does not write; all members of a stack have
    the same one.
13. A dimension has the same bounds wherever it occurs.

A program for ranges is checked as it is in a few runs: with the largest extents, with the smallest,
and with others between.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from afterglow.graph.dims import bounds_problem
from afterglow.graph.op import result_types
from afterglow.instr.bind import bind_program
from afterglow.instr.buffer import Access, Buffer, Region
from afterglow.instr.instruction import (
    Alloc,
    Copy,
    Dealloc,
    DeclareView,
    Instr,
    OpInstr,
    Prefetch,
    Stack,
    Wait,
)
from afterglow.instr.overlap import byte_span, bytes_of, overlap, same_place
from afterglow.instr.printer import instruction_text
from afterglow.instr.program import Program, dims_of_program
from afterglow.instr.tiling import may_take_over, tile_axes
from afterglow.support.errors import TypeRuleError, VerifyError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import boolean
from afterglow.types.extent.samples import run_text, sample_extents

_READ_ONLY = (Region.CONSTANT, Region.INPUT)


def verify_program(program: Program) -> None:
    """Raise `VerifyError` for the first rule that the program breaks, at one of a few extents."""
    dims = dims_of_program(program)
    if problem := bounds_problem(dims):
        raise VerifyError(problem, where=f"in program @{program.name}")
    for extents in sample_extents(dims):
        where = f"in program @{program.name}" + (f" with {run_text(extents)}" if extents else "")
        _Checker(bind_program(program, extents), where).run()


class _Checker:
    """Walks through a program, keeping what is declared, live and written."""

    def __init__(self, program: Program, where: str) -> None:
        self.program = program
        self.where = where
        self.declared: set[Buffer] = set()
        self.names: set[str] = set()
        self.live: dict[Buffer, None] = {}
        self.freed: set[Buffer] = set()
        self.written: dict[Buffer, Array | bool] = {}
        self.transfers: dict[Prefetch, None] = {}

    def run(self) -> None:
        for buffer in self.program.regions():
            self._declare(buffer)
            if buffer.region is not Region.OUTPUT:
                self.written[buffer] = True
        for step in self.program.body:
            for problem in self._problems(step):
                raise VerifyError(
                    problem,
                    where=self.where,
                    excerpt=[f"> {instruction_text(step)}"],
                )
        for buffer in self.program.outputs:
            if not self._is_written(buffer):
                raise VerifyError(f"output {buffer} is not written")
        for transfer in self.transfers:
            raise VerifyError(f"nobody waits for {transfer.dest}")

    def _declare(self, buffer: Buffer) -> None:
        if buffer.name in self.names:
            raise VerifyError(f"{buffer} is declared twice")
        self.names.add(buffer.name)
        self.declared.add(buffer)

    def _problems(self, step: Instr) -> Iterator[str]:
        match step:
            case Alloc(buffer):
                yield from self._allocate(buffer)
            case Dealloc(buffer):
                yield from self._free(buffer)
            case DeclareView(buffer):
                self._declare(buffer)
                yield from self._view_problems(buffer)
            case Stack():
                yield from self._stack_problems(step)
            case Wait(transfer):
                if self.transfers.pop(transfer, step) is step:
                    yield f"nothing is on its way to {transfer.dest}"
                yield from self._run_problems(step)
            case _:
                yield from self._run_problems(step)
                yield from _overlap_problems(step)
                if isinstance(step, Prefetch):
                    self.transfers[step] = None

    def _free(self, buffer: Buffer) -> Iterator[str]:
        yield from self._transfer_problems(Access.OUT, buffer)
        if buffer.is_view:
            self._forget(buffer)
            return
        if buffer not in self.live:
            yield f"{buffer} is not live here"
        self.live.pop(buffer, None)
        self.freed.add(buffer)

    def _run_problems(self, step: Instr) -> Iterator[str]:
        yield from self._operand_problems(step)
        yield from _type_problems(step)
        if isinstance(step, OpInstr):
            yield from _predicate_problems(step)
        self._record_writes(step)

    def _stack_problems(self, stack: Stack) -> Iterator[str]:
        for buffer in stack.locals:
            self._declare(buffer)
        for member in stack.body:
            yield from self._run_problems(member)
        if any(step.predicate is not stack.body[0].predicate for step in stack.body):
            yield "the instructions of the stack have different predicates"
        if len(stack.body) > 1 and not tile_axes(stack):
            yield "the instructions of the stack cannot run tile by tile together"
        yield from _stack_overlaps(stack)

    def _allocate(self, buffer: Buffer) -> Iterator[str]:
        self._declare(buffer)
        arena = self.program.arena_size(buffer.memory)
        if arena is None and self.program.is_planned:
            yield f"{buffer} lies in no arena"
        if arena is not None:
            if buffer.address is None or not 0 <= buffer.address <= arena - buffer.type.nbytes:
                yield f"{buffer} at {buffer.address} does not lie in an arena of {arena} bytes"
            else:
                yield from (
                    f"{buffer} overlaps {other}, which is live"
                    for other in self.live
                    if _share_addresses(buffer, other)
                )
        self.live[buffer] = None

    def _view_problems(self, view: Buffer) -> Iterator[str]:
        root = view.root
        if root not in self.declared:
            yield f"{root} is not declared"
        if view.type.dtype.itemsize > root.type.dtype.itemsize:
            yield f"a view of {root.type} cannot hold {view.type.dtype}"
        low, high = byte_span(view)
        if low < 0 or high > root.type.nbytes:
            yield f"{view} takes bytes {low} to {high} of {root.type.nbytes}"

    def _operand_problems(self, step: Instr) -> Iterator[str]:
        for access, buffer in step.accesses():
            root = buffer.root
            if buffer not in self.declared:
                yield f"{buffer} is not declared"
            if root.region is Region.ARENA and root not in self.live:
                yield f"{buffer} is used {'after its end' if root in self.freed else 'too early'}"
            if access.writes and root.region in _READ_ONLY and not root.donated:
                yield f"{buffer} is written, but it is {root.region.value} memory"
            if access.reads and not self._is_written(buffer):
                yield f"{buffer} is read before it is written"
            yield from self._transfer_problems(access, buffer)

    def _transfer_problems(self, access: Access, buffer: Buffer) -> Iterator[str]:
        for transfer in self.transfers:
            if overlap(buffer, transfer.dest) or (access.writes and overlap(buffer, transfer.src)):
                yield f"{buffer} is used while {transfer.dest} is being prefetched"

    def _is_written(self, buffer: Buffer) -> bool:
        state = self.written.get(buffer.root, False)
        if isinstance(state, bool):
            return state or not buffer.type.size
        return bool(bytes_of(buffer, state).all())

    def _record_writes(self, step: Instr) -> None:
        for access, buffer in step.accesses():
            if not access.writes:
                continue
            if access is Access.SCRATCH:
                self._forget(buffer)
                continue
            state = self.written.get(buffer.root, False)
            if buffer.covers_root or state is True:
                self.written[buffer.root] = True
                continue
            written = self._written_bytes(buffer.root)
            bytes_of(buffer, written)[...] = True
            if written.all():
                self.written[buffer.root] = True

    def _forget(self, buffer: Buffer) -> None:
        if buffer.covers_root:
            self.written[buffer.root] = False
        else:
            bytes_of(buffer, self._written_bytes(buffer.root))[...] = False

    def _written_bytes(self, root: Buffer) -> Array:
        """For each byte of a buffer whether it is written, to be changed in place."""
        state = self.written.get(root, False)
        if isinstance(state, bool):
            state = self.written[root] = np.full(root.type.nbytes, state)
        return state


def _share_addresses(a: Buffer, b: Buffer) -> bool:
    if a.address is None or b.address is None or a.memory != b.memory:
        return False
    return a.address < b.address + b.type.nbytes and b.address < a.address + a.type.nbytes


def _type_problems(step: Instr) -> Iterator[str]:
    match step:
        case Copy(dest, src) | Prefetch(dest, src) if dest.type != src.type:
            yield f"a copy's sides have one type, got {dest.type} and {src.type}"
        case OpInstr(op, outs, ins):
            try:
                inferred = result_types(op.infer(*(None if b is None else b.type for b in ins)))
            except TypeRuleError as error:
                yield f"{op.mnemonic}: {error.what}"
                return
            if inferred != tuple(out.type for out in outs):
                yield f"{op.mnemonic} gives {inferred}"


def _stack_overlaps(stack: Stack) -> Iterator[str]:
    """What one member writes, only itself or earlier members may have read, at the same place."""
    for access, written in stack.accesses():
        if not access.writes:
            continue
        for other_access, other in stack.accesses():
            if other is written or other.root is not written.root or not overlap(written, other):
                continue
            same = same_place(written, other) and may_take_over(stack, written, other)
            if other_access.writes or not same:
                yield f"{written} is written while {other}, which overlaps it, is used"


def _predicate_problems(step: OpInstr) -> Iterator[str]:
    predicate = step.predicate
    if predicate is None:
        return
    if predicate.type != TensorType(boolean, ()):
        yield f"a predicate must be bool[], got {predicate.type}"
    if any(overlap(out, predicate) for out in step.outs if out.root is predicate.root):
        yield f"predicate {predicate} is overwritten"


def _overlap_problems(step: Instr) -> Iterator[str]:
    operands = list(step.accesses())
    allowed = list(step.inplace_operands()) if isinstance(step, OpInstr) else []
    for index, (access, written) in enumerate(operands):
        if not access.writes:
            continue
        for position, (_, other) in enumerate(operands):
            if position == index or other.root is not written.root:
                continue
            same = same_place(written, other) and any(same_place(other, b) for b in allowed)
            if not same and overlap(written, other):
                yield f"{written} is written while {other}, which overlaps it, is used"
