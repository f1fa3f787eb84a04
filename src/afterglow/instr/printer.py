"""Programs as text; `parser` reads it back. The grammar is in docs/ir.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from afterglow.graph.attributes import attributes_text, value_text
from afterglow.graph.origins import origins_text
from afterglow.instr.buffer import Access, Buffer, row_major
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
from afterglow.instr.kernel_plan import KernelPlan
from afterglow.instr.program import Program, dims_of_program
from afterglow.support.names import spell
from afterglow.types.extent import is_ranged, largest, smallest
from afterglow.types.extent.text import dim_lines

_COMMENT_COLUMN = 60
_PLAN_TUPLES = ("packed", "halo", "gap")


def print_program(program: Program, *, origins: bool = False) -> str:
    """The whole program: dimensions, buffers, instructions; sizes and lifetimes are comments.

    With `origins`, each instruction says which nodes of the model it computes.
    """
    lines = [f"program {spell('@', program.name)}{_arenas(program)} {{"]
    lines.extend(dim_lines(dims_of_program(program)))
    lines.extend(_declaration(buffer) for buffer in program.regions())
    lives = _lifetimes(program.body)
    for step in program.body:
        lines.extend(instruction_text(step, origins=origins).splitlines())
        if isinstance(step, Alloc) and step.buffer in lives:
            lines[-1] += f", instructions {lives[step.buffer]}"
    body = "\n".join(f"  {line}".rstrip() for line in lines[1:])
    return f"{lines[0]}\n{body}\n}}\n"


def _arenas(program: Program) -> str:
    if program.arena_bytes is not None:
        return f" arena {program.arena_bytes}"
    return ",".join(f" arena {name} {size}" for name, size in program.arenas.items())


def _lifetimes(body: Sequence[Instr]) -> dict[Buffer, str]:
    """The first and last instruction of each buffer; those that only mark memory do not count."""
    starts: dict[Buffer, int] = {}
    lives: dict[Buffer, str] = {}
    time = 0
    for step in body:
        match step:
            case Alloc(buffer):
                starts[buffer] = time
            case Dealloc(buffer):
                lives[buffer] = f"{starts.get(buffer, 0)}-{time - 1}"
            case DeclareView():
                pass
            case _:
                time += 1
    return lives


def _declaration(buffer: Buffer) -> str:
    donated = " donated" if buffer.donated else ""
    level = "" if buffer.level is None else f" {buffer.level}"
    return _sized(f"{buffer.region.value} {buffer} : {buffer.type}{donated}{level}", buffer)


def _sized(text: str, buffer: Buffer) -> str:
    return f"{text:<{_COMMENT_COLUMN}} ; {buffer.type.nbytes:,} B"


def instruction_text(step: Instr, *, origins: bool = False) -> str:
    """One instruction; with `origins`, it says which nodes of the model it computes."""
    match step:
        case Alloc(buffer):
            place = f" in {buffer.memory}" if buffer.memory else ""
            place += "" if buffer.address is None else f" at {buffer.address}"
            return _sized(f"{buffer} = alloc {buffer.type}{place}", buffer)
        case Dealloc(buffer):
            return f"dealloc {buffer}"
        case DeclareView(buffer):
            return f"{buffer} = view {buffer.root}{_place(buffer)} : {buffer.type}"
        case Copy(dest, src, nodes):
            return f"copy out {dest}, in {src}" + (origins_text(nodes) if origins else "")
        case Prefetch(dest, src, nodes):
            return f"prefetch out {dest}, in {src}" + (origins_text(nodes) if origins else "")
        case Wait(transfer):
            return f"wait {transfer.dest}"
        case OpInstr():
            return _op_text(step, origins)
        case Stack(body, hidden, scratch):
            inner = [f"  {buffer} = local {buffer.type}" for buffer in hidden]
            inner.extend(f"  {_op_text(member, origins)}" for member in body)
            used = ", ".join(f"scratch {buffer}" for buffer in scratch)
            head = " ".join(filter(None, ("stack", used, plan_text(step.plan))))
            return "\n".join([f"{head} {{", *inner, "}"])
    raise TypeError(f"no text for {step}")


def _op_text(step: OpInstr, origins: bool) -> str:
    operands = ", ".join(_operands(step))
    attributes = attributes_text(step.op)
    predicate = f"if {step.predicate}" if step.predicate is not None else ""
    parts = (f"{step.op.mnemonic} {operands}", attributes, predicate, plan_text(step.plan))
    return " ".join(filter(None, parts)) + (origins_text(step.origins) if origins else "")


def plan_text(plan: KernelPlan | None) -> str:
    """A kernel plan: `plan winograd {size = 4} needs {cost = 5e+07, workspace = (…)}`."""
    if plan is None:
        return ""
    needs: dict[str, object] = {"cost": float(plan.cost)}
    if plan.workspace:
        needs["workspace"] = tuple(plan.workspace.items())
    if plan.thread_bytes:
        needs["thread_bytes"] = plan.thread_bytes
    if plan.weight_growth:
        needs["weight_growth"] = plan.weight_growth
    needs.update({name: value for name in _PLAN_TUPLES if (value := getattr(plan, name))})
    if plan.alignment > 1:
        needs["alignment"] = plan.alignment
    settings = f" {_pairs(plan.settings)}" if plan.settings else ""
    return f"plan {plan.algorithm}{settings} needs {_pairs(needs)}"


def _pairs(values: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{name} = {value_text(value)}" for name, value in values.items()) + "}"


def _operands(step: OpInstr) -> Iterator[str]:
    for buffer in step.outs:
        access = Access.INOUT if buffer in step.ins else Access.OUT
        yield f"{access.value} {buffer}"
    for operand in step.ins:
        yield "none" if operand is None else f"in {operand}"
    for buffer in step.scratch:
        yield f"scratch {buffer}"


def _place(view: Buffer) -> str:
    """Where a view lies in its root: nothing for all of it, a window, or start and strides."""
    if view.start == 0 and view.covers_root:
        return ""
    window = _window(view)
    if window is not None:
        return window
    strides = ", ".join(map(str, view.strides)) + ("," if len(view.strides) == 1 else "")
    return f" {{start = {view.start}, strides = ({strides})}}"


def _window(view: Buffer) -> str | None:
    """The view as `[start:stop:step, …]` of its root, if it is that at all extents."""
    shape, dense = view.root.type.shape, row_major(view.root.type.shape)
    if len(shape) != view.type.rank or not smallest(view.type.size):
        return None
    parts, rest = [], view.start
    for axis, extent in enumerate(view.type.shape):
        start, rest = divmod(rest, dense[axis])
        step, odd = divmod(view.strides[axis], dense[axis])
        stop = start + (extent - 1) * step + 1
        if is_ranged(step) or odd != 0 or step < 1 or largest(stop - shape[axis]) > 0:
            return None
        parts.append(f"{start}:{stop}" + (f":{step}" if step > 1 else ""))
    return f"[{', '.join(parts)}]"
