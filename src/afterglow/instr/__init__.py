"""The instruction IR: typed memory and what is done to it. Knows no particular op."""

from afterglow.instr.buffer import Access, Buffer, Region, row_major
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
    ops_of,
    origins_of,
)
from afterglow.instr.kernel_plan import ON_HOST, KernelPlan
from afterglow.instr.parser import parse_program
from afterglow.instr.printer import print_program
from afterglow.instr.program import Program, ProgramBuilder, interface_of
from afterglow.instr.verifier import verify_program

__all__ = [
    "ON_HOST",
    "Access",
    "Alloc",
    "Buffer",
    "Copy",
    "Dealloc",
    "DeclareView",
    "Instr",
    "KernelPlan",
    "OpInstr",
    "Prefetch",
    "Program",
    "ProgramBuilder",
    "Region",
    "Stack",
    "Wait",
    "interface_of",
    "ops_of",
    "origins_of",
    "parse_program",
    "print_program",
    "row_major",
    "verify_program",
]
