"""Programs from text: the inverse of `printer`."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.graph import OPS, Subgraph
from afterglow.graph.attributes import parse_attributes, parse_pairs
from afterglow.graph.origins import parse_origins
from afterglow.graph.parser import parse_type, unknown_op
from afterglow.instr.buffer import Buffer, Region, row_major
from afterglow.instr.instruction import (
    Alloc,
    Copy,
    Dealloc,
    DeclareView,
    OpInstr,
    Prefetch,
    Stack,
    Wait,
)
from afterglow.instr.kernel_plan import KernelPlan
from afterglow.instr.program import Program
from afterglow.support.lexer import TokenStream
from afterglow.types import Array, TensorType
from afterglow.types.extent.text import parse_dims, parse_extent, parse_level

_REGIONS = (Region.INPUT, Region.OUTPUT, Region.CONSTANT, Region.STATE)
_DECLARED = {region.value: region for region in _REGIONS}


def parse_program(
    text: str,
    payload: Mapping[str, Array] | None = None,
    functions: Mapping[str, Subgraph] | None = None,
) -> Program:
    """Read a program, given the elements of constants and the functions that ops carry."""
    return _Parser(TokenStream(text), payload or {}, functions or {}).run()


class _Parser:
    def __init__(
        self,
        tokens: TokenStream,
        payload: Mapping[str, Array],
        functions: Mapping[str, Subgraph],
    ) -> None:
        self.tokens = tokens
        self.payload = payload
        self.functions = functions
        self.buffers: dict[str, Buffer] = {}
        self.transfers: dict[Buffer, Prefetch] = {}

    def run(self) -> Program:
        self.tokens.expect("program")
        self.program = Program(self.tokens.name("@", "the name of a program"))
        if self.tokens.accept("arena"):
            self._arenas()
        self.tokens.expect("{")
        parse_dims(self.tokens)
        while not self.tokens.accept("}"):
            self._line()
        return self.program

    def _arenas(self) -> None:
        if self.tokens.next.kind == "number":
            self.program.arena_bytes = self.tokens.integer()
            return
        self._arena()
        while self.tokens.accept(","):
            self.tokens.expect("arena")
            self._arena()

    def _arena(self) -> None:
        name = self.tokens.take("word", "the name of an arena")
        self.program.arenas[name] = self.tokens.integer()

    def _line(self) -> None:
        if self.tokens.next.kind == "name":
            self._definition()
            return
        word = self.tokens.take("word", "an instruction")
        if word in _DECLARED:
            self._declaration(_DECLARED[word])
        elif word == "dealloc":
            self.program.body.append(Dealloc(self._buffer()))
        elif word == "copy":
            self.program.body.append(Copy(*self._moved(), parse_origins(self.tokens)))
        elif word == "prefetch":
            self._prefetch()
        elif word == "wait":
            self._wait()
        elif word == "stack":
            self._stack()
        else:
            self.program.body.append(self._op(word))

    def _new_name(self) -> str:
        name = self.tokens.name("%@", "the name of a buffer")
        if name in self.buffers:
            raise self.tokens.error(f"{name} is declared twice")
        return name

    def _buffer(self) -> Buffer:
        text = self.tokens.next.text
        name = self.tokens.name("%@", "a buffer")
        if name not in self.buffers:
            raise self.tokens.error(f"{text} is not declared")
        return self.buffers[name]

    def _declaration(self, region: Region) -> None:
        name = self._new_name()
        self.tokens.expect(":")
        type = parse_type(self.tokens)
        buffer = self.program.declare(region, name, type, self.payload.get(name))
        buffer.donated = region is Region.INPUT and self.tokens.accept("donated")
        buffer.level = parse_level(self.tokens) if region is Region.STATE else None
        self.buffers[name] = buffer

    def _definition(self) -> None:
        name = self._new_name()
        self.tokens.expect("=")
        if self.tokens.accept("alloc"):
            buffer = self.program.declare(Region.ARENA, name, parse_type(self.tokens))
            if self.tokens.accept("in"):
                buffer.memory = self.tokens.take("word", "the name of an arena")
            if self.tokens.accept("at"):
                buffer.address = self.tokens.integer()
            self.program.body.append(Alloc(buffer))
        else:
            self.tokens.expect("view")
            buffer = self._view(self.program.names.claim(name), self._buffer())
            self.program.body.append(DeclareView(buffer))
        self.buffers[name] = buffer

    def _view(self, name: str, root: Buffer) -> Buffer:
        start, strides = 0, None
        if self.tokens.accept("["):
            start, strides = self._window(root)
        elif self.tokens.accept("{"):
            start, strides = self._layout()
        self.tokens.expect(":")
        type = parse_type(self.tokens)
        self._check_rank(type, strides)
        return Buffer(name, type, root.region, base=root, start=start, strides=strides)

    def _check_rank(self, type: TensorType, strides: list[int] | None) -> None:
        if strides is not None and len(strides) != type.rank:
            raise self.tokens.error(f"{type} has {type.rank} axes, got {len(strides)} strides")

    def _window(self, root: Buffer) -> tuple[int, list[int]]:
        start, strides = 0, []
        for dense in row_major(root.type.shape):
            start += parse_extent(self.tokens) * dense
            self.tokens.expect(":")
            parse_extent(self.tokens)
            strides.append(dense * (parse_extent(self.tokens) if self.tokens.accept(":") else 1))
            if self.tokens.next.text != "]":
                self.tokens.expect(",")
        self.tokens.expect("]")
        return start, strides

    def _layout(self) -> tuple[int, list[int]]:
        self.tokens.expect("start")
        self.tokens.expect("=")
        start = parse_extent(self.tokens)
        self.tokens.expect(",")
        self.tokens.expect("strides")
        self.tokens.expect("=")
        self.tokens.expect("(")
        strides = []
        while not self.tokens.accept(")"):
            strides.append(parse_extent(self.tokens))
            if self.tokens.next.text != ")":
                self.tokens.expect(",")
        self.tokens.expect("}")
        return start, strides

    def _moved(self) -> tuple[Buffer, Buffer]:
        self.tokens.expect("out")
        dest = self._buffer()
        self.tokens.expect(",")
        self.tokens.expect("in")
        return dest, self._buffer()

    def _prefetch(self) -> None:
        transfer = Prefetch(*self._moved(), parse_origins(self.tokens))
        self.transfers[transfer.dest] = transfer
        self.program.body.append(transfer)

    def _wait(self) -> None:
        dest = self._buffer()
        if dest not in self.transfers:
            raise self.tokens.error(f"nothing is prefetched into {dest}")
        self.program.body.append(Wait(self.transfers[dest]))

    def _stack(self) -> None:
        hidden: list[Buffer] = []
        body: list[OpInstr] = []
        scratch: list[Buffer] = []
        while self.tokens.accept("scratch"):
            scratch.append(self._buffer())
            self.tokens.accept(",")
        plan = self._plan()
        self.tokens.expect("{")
        while not self.tokens.accept("}"):
            if self.tokens.next.kind == "name":
                name = self._new_name()
                self.tokens.expect("=")
                self.tokens.expect("local")
                type = parse_type(self.tokens)
                hidden.append(self.program.declare(Region.LOCAL, name, type))
                self.buffers[name] = hidden[-1]
            else:
                body.append(self._op(self.tokens.take("word", "an instruction")))
        self.program.body.append(Stack(tuple(body), tuple(hidden), tuple(scratch), plan))

    def _plan(self) -> KernelPlan | None:
        if not self.tokens.accept("plan"):
            return None
        algorithm = self.tokens.take("word", "the name of an algorithm")
        settings = parse_pairs(self.tokens)
        self.tokens.expect("needs")
        needs = parse_pairs(self.tokens)
        needs["workspace"] = dict(needs.get("workspace", ()))
        try:
            return KernelPlan(algorithm, settings, **needs)
        except TypeError as error:
            raise self.tokens.error(f"a kernel plan has other parts: {error}") from None

    def _op(self, word: str) -> OpInstr:
        if word not in OPS:
            raise unknown_op(self.tokens, word, "instruction")
        outs: list[Buffer] = []
        ins: list[Buffer | None] = []
        scratch: list[Buffer] = []
        while True:
            self._operand(outs, ins, scratch)
            if not self.tokens.accept(","):
                break
        op = OPS[word](**parse_attributes(self.tokens, OPS[word], self._function))
        predicate = self._buffer() if self.tokens.accept("if") else None
        made = OpInstr(op, tuple(outs), tuple(ins), tuple(scratch), predicate)
        made.plan = self._plan()
        made.origins = parse_origins(self.tokens)
        return made

    def _operand(self, outs: list[Buffer], ins: list[Buffer | None], scratch: list[Buffer]) -> None:
        access = self.tokens.take("word", "'in', 'out', 'inout', 'scratch' or 'none'")
        match access:
            case "out" | "inout":
                outs.append(self._buffer())
            case "in":
                ins.append(self._buffer())
            case "none":
                ins.append(None)
            case "scratch":
                scratch.append(self._buffer())
            case _:
                raise self.tokens.error(f"no such access: {access!r}")

    def _function(self, name: str) -> Subgraph:
        if name not in self.functions:
            raise self.tokens.error(f"function @{name} was not given")
        return self.functions[name]
