"""Programs with control flow: written down, and random ones."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Function, Module, Subgraph, Value
from afterglow.ops.activation import Relu
from afterglow.ops.control import If, Loop, Scan
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Less, Max, Mul, Sub
from afterglow.ops.functions import Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Reshape, Slice, Transpose
from afterglow.ops.reduction import ReduceSum
from afterglow.types import TensorType
from afterglow.types.dtype import boolean, f32, i64

SHAPE = (3, 4)
FLOATS = TensorType(f32, SHAPE)
NUMBER, FLAG = TensorType(i64, ()), TensorType(boolean, ())

RANGED_TEXTS = {
    "a loop that fills a room": """
        dim b : 1..3
        dim i : 0..6
        dim s : 1..300
        const @true : bool[] = [true]
        const @seven : i64[] = [7]
        func @body(%n: i64[], %room: f32[b, 307], %x: f32[b, s]) {
          %past = slice(%room) {starts = (0, 0), extents = (b, i + s), steps = (1, 1)}
            : f32[b, i + s]
          %highest = reduce_max(%past) {axes = (1), keepdims = true} : f32[b, 1]
          %sum = reduce_sum(%x) {axes = (1), keepdims = true} : f32[b, 1]
          %new = add(%highest, %sum) : f32[b, 1]
          %written = overwrite(%room, %new) {starts = (0, i + s)} : f32[b, 307]
          return @true, %written
        }
        func @main(%room: f32[b, 307], %x: f32[b, s]) {
          %begun = overwrite(%room, %x) {starts = (0, 0)} : f32[b, 307]
          %r = loop(@seven, @true, %begun, %x) {body = @body, carried = 1, iteration = i}
            : f32[b, 307]
          return %r
        }
    """,
    "a loop that carries a length": """
        dim b : 1..3
        dim g : 0..6
        dim s : 1..300
        const @true : bool[] = [true]
        const @zero : i64[] = [0]
        const @two : i64[] = [2]
        const @seven : i64[] = [7]
        func @body(%n: i64[], %grown: i64[], %room: f32[b, 307], %x: f32[b, s]) {
          %past = slice(%room) {starts = (0, 0), extents = (b, g + s), steps = (1, 1)}
            : f32[b, g + s]
          %new = reduce_max(%past) {axes = (1), keepdims = true} : f32[b, 1]
          %written = overwrite(%room, %new) {starts = (0, g + s)} : f32[b, 307]
          %odd = mod(%n, @two) : i64[]
          %longer = add(%grown, %odd) : i64[]
          return @true, %longer, %written
        }
        func @main(%room: f32[b, 307], %x: f32[b, s]) {
          %begun = overwrite(%room, %x) {starts = (0, 0)} : f32[b, 307]
          %m, %r = loop(@seven, @true, @zero, %begun, %x)
            {body = @body, carried = 2, iteration = 0, lengths = (g)} : i64[], f32[b, 307]
          return %m, %r
        }
    """,
    "scan": """
        dim b : 1..3
        dim s : 1..300
        func @body(%h: f32[b, 4], %x: f32[b, 4], %w: f32[4, 4]) {
          %product = matmul(%h, %w) : f32[b, 4]
          %sum = add(%product, %x) : f32[b, 4]
          %next = tanh(%sum) : f32[b, 4]
          return %next, %next as "again"
        }
        func @main(%h: f32[b, 4], %x: f32[b, s, 4], %w: f32[4, 4]) {
          %turned = transpose(%x) {perm = (1, 0, 2)} : f32[s, b, 4]
          %r, %t = scan(%h, %turned, %w) {body = @body, length = s, carried = 1, scanned = 1}
            : f32[b, 4], f32[s, b, 4]
          %back = transpose(%t) {perm = (1, 0, 2)} : f32[b, s, 4]
          return %r, %back
        }
    """,
    "loop": """
        dim b : 1..3
        dim s : 1..300
        const @true : bool[] = [true]
        const @three : i64[] = [3]
        func @inner(%h: f32[b], %x: f32[b]) {
          %sum = add(%h, %x) : f32[b]
          return %sum, %sum as "again"
        }
        func @body(%n: i64[], %a: f32[s, b], %h: f32[b]) {
          %r, %y = scan(%h, %a) {body = @inner, length = s, carried = 1, scanned = 1}
            : f32[b], f32[s, b]
          %bounded = tanh(%y) : f32[s, b]
          return @true, %bounded
        }
        func @main(%a: f32[s, b], %h: f32[b]) {
          %r = loop(@three, @true, %a, %h) {body = @body, carried = 1} : f32[s, b]
          return %r
        }
    """,
    "choice": """
        dim b : 1..3
        dim s : 1..300
        const @zero : f32[] = [0.0]
        func @then(%x: f32[s, b], %y: f32[b]) {
          %sum = add(%x, %y) : f32[s, b]
          return %sum
        }
        func @else(%x: f32[s, b], %y: f32[b]) {
          %square = mul(%x, %x) : f32[s, b]
          return %square
        }
        func @main(%x: f32[s, b], %y: f32[b]) {
          %sum = reduce_sum(%x) {axes = (0, 1), keepdims = false} : f32[]
          %positive = less(@zero, %sum) : bool[]
          %r = if(%positive, %x, %y) {then_branch = @then, else_branch = @else} : f32[s, b]
          %top = relu(%r) : f32[s, b]
          return %top
        }
    """,
}
"""Programs for ranges, whose loops are as long as an extent."""

TEXTS = {
    "while": """
        const @one : i64[] = [1]
        func @body(%n: i64[], %total: i64[], %stop: i64[]) {
          %next = add(%total, %n) : i64[]
          %go = less(%next, %stop) : bool[]
          return %go, %next
        }
        func @main(%limit: i64[], %go: bool[], %total: i64[], %stop: i64[]) {
          %r = loop(%limit, %go, %total, %stop) {body = @body, carried = 1} : i64[]
          return %r
        }
    """,
    "fibonacci": """
        const @true : bool[] = [true]
        func @body(%n: i64[], %a: i64[2], %b: i64[2]) {
          %sum = add(%a, %b) : i64[2]
          return @true, %b, %sum
        }
        func @main(%limit: i64[], %go: bool[], %a: i64[2], %b: i64[2]) {
          %r, %s = loop(%limit, %go, %a, %b) {body = @body, carried = 2} : i64[2], i64[2]
          return %r, %s
        }
    """,
    "turn": """
        const @true : bool[] = [true]
        func @body(%n: i64[], %a: f32[2], %b: f32[2], %c: f32[2], %d: f32[2]) {
          return @true, %c, %a, %b, %d
        }
        func @main(%limit: i64[], %go: bool[], %a: f32[2], %b: f32[2], %c: f32[2], %d: f32[2]) {
          %r, %s, %t, %u = loop(%limit, %go, %a, %b, %c, %d) {body = @body, carried = 4}
            : f32[2], f32[2], f32[2], f32[2]
          return %r, %s, %t, %u
        }
    """,
    "scan": """
        func @body(%h: f32[4], %x: f32[4], %y: f32[2, 2], %w: f32[4, 4]) {
          %row = reshape(%h) {shape = (1, 4)} : f32[1, 4]
          %product = matmul(%row, %w) : f32[1, 4]
          %flat = reshape(%product) {shape = (4,)} : f32[4]
          %sum = add(%flat, %x) : f32[4]
          %next = tanh(%sum) : f32[4]
          %other = transpose(%y) {perm = (1, 0)} : f32[2, 2]
          return %next, %next as "again", %other, %h as "before"
        }
        func @main(%h: f32[4], %x: f32[5, 4], %y: f32[5, 2, 2], %w: f32[4, 4]) {
          %r, %s, %t, %u = scan(%h, %x, %y, %w) {body = @body, length = 5, carried = 1, scanned = 2}
            : f32[4], f32[5, 4], f32[5, 2, 2], f32[5, 4]
          return %r, %s, %t, %u
        }
    """,
    "views": """
        func @body(%h: f32[4], %x: f32[4], %w: f32[4]) {
          %sum = add(%h, %x) : f32[4]
          %next = add(%sum, %w) : f32[4]
          return %next, %sum
        }
        func @main(%h: f32[4, 3], %x: f32[4, 3], %w: f32[8]) {
          %one = slice(%h) {starts = (0, 1), extents = (4, 1), steps = (1, 1)} : f32[4, 1]
          %flat = reshape(%one) {shape = (4,)} : f32[4]
          %turned = transpose(%x) {perm = (1, 0)} : f32[3, 4]
          %back = slice(%turned) {starts = (2, 0), extents = (3, 4), steps = (-1, 1)} : f32[3, 4]
          %even = slice(%w) {starts = (0,), extents = (4,), steps = (2,)} : f32[4]
          %r, %s = scan(%flat, %back, %even) {body = @body, length = 3, carried = 1, scanned = 1}
            : f32[4], f32[3, 4]
          %rows = reshape(%r) {shape = (1, 4)} : f32[1, 4]
          %all = concat(%rows, %s) {axis = 0} : f32[4, 4]
          return %all
        }
    """,
    "twice": """
        const @true : bool[] = [true]
        func @body(%n: i64[], %h: f32[3, 4], %w: f32[3, 4]) {
          %sum = add(%h, %w) : f32[3, 4]
          return @true, %sum
        }
        func @main(%x: f32[4, 3], %limit: i64[], %go: bool[]) {
          %turned = transpose(%x) {perm = (1, 0)} : f32[3, 4]
          %r = loop(%limit, %go, %turned, %turned) {body = @body, carried = 1} : f32[3, 4]
          %back = transpose(%r) {perm = (1, 0)} : f32[4, 3]
          return %back
        }
    """,
    "choice": """
        const @zero : f32[] = [0.0]
        func @then(%x: f32[3, 4], %w: f32[4, 4]) {
          %product = matmul(%x, %w) : f32[3, 4]
          %sum = add(%product, %x) : f32[3, 4]
          %top = relu(%sum) : f32[3, 4]
          return %top, %x
        }
        func @else(%x: f32[3, 4], %w: f32[4, 4]) {
          %square = mul(%x, %x) : f32[3, 4]
          return %square, %square as "again"
        }
        func @main(%x: f32[3, 4], %w: f32[4, 4]) {
          %sum = reduce_sum(%x) {axes = (0, 1), keepdims = false} : f32[]
          %positive = less(@zero, %sum) : bool[]
          %r, %s = if(%positive, %x, %w) {then_branch = @then, else_branch = @else}
            : f32[3, 4], f32[3, 4]
          %end = add(%r, %s) : f32[3, 4]
          return %end, %r
        }
    """,
    "nested": """
        const @two : i64[] = [2]
        const @three : i64[] = [3]
        const @true : bool[] = [true]
        func @halve(%x: f32[4], %shift: f32[4]) {
          %difference = sub(%x, %shift) : f32[4]
          return %difference
        }
        func @grow(%x: f32[4], %shift: f32[4]) {
          %sum = add(%x, %shift) : f32[4]
          %more = tanh(%sum) : f32[4]
          return %more
        }
        func @inner(%n: i64[], %x: f32[4], %shift: f32[4]) {
          %early = less(%n, @two) : bool[]
          %r = if(%early, %x, %shift) {then_branch = @grow, else_branch = @halve} : f32[4]
          return @true, %r
        }
        func @outer(%x: f32[4], %part: f32[4], %count: i64[]) {
          %r = loop(%count, @true, %x, %part) {body = @inner, carried = 1} : f32[4]
          return %r, %r as "each"
        }
        func @main(%x: f32[4], %parts: f32[6, 4], %count: i64[]) {
          %r, %s = scan(%x, %parts, %count) {body = @outer, length = 6, carried = 1, scanned = 1}
            : f32[4], f32[6, 4]
          return %r, %s
        }
    """,
}


class RandomProgram:
    """A module made from a seed: functions of tensors of one shape, with bodies in bodies."""

    def __init__(self, seed: int, depth: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.module = Module()
        self.count = 0
        self.main = Function("main", self.module)
        values: list[Value] = [self.main.input(f"x{i}", FLOATS) for i in range(3)]
        self.fill(self.main, values, depth, steps=6)
        for index in range(2):
            self.main.output(f"y{index}", self.one_of(values))

    def one_of(self, values: list[Value]) -> Value:
        """One of the values, more often a late one."""
        return values[int(len(values) * self.rng.random() ** 0.5)]

    def fill(self, function: Function, values: list[Value], depth: int, steps: int) -> None:
        """Add steps to a function, and their results to the values."""
        b = Builder(function)
        kinds = [self.pointwise, self.pointwise, self.product, self.moved]
        if depth:
            kinds += [self.choice, self.loop, self.scan]
        for _ in range(steps):
            values.append(kinds[self.rng.integers(len(kinds))](b, values, depth - 1))

    def pointwise(self, b: Builder, values: list[Value], depth: int) -> Value:
        if self.rng.random() < 0.4:
            return b.emit([Relu(), Tanh()][self.rng.integers(2)], self.one_of(values))
        op = [Add(), Sub(), Mul(), Max()][self.rng.integers(4)]
        other = self.one_of(values) if self.rng.random() < 0.7 else self.constant(b, SHAPE[1:])
        return b.emit(Tanh(), b.emit(op, self.one_of(values), other))

    def product(self, b: Builder, values: list[Value], depth: int) -> Value:
        return b.emit(MatMul(), self.one_of(values), self.constant(b, (SHAPE[1], SHAPE[1])))

    def moved(self, b: Builder, values: list[Value], depth: int) -> Value:
        first = b.emit(Slice((1, 0), (2, 4), (1, 1)), self.one_of(values))
        second = b.emit(Slice((2, 3), (1, 4), (1, -1)), self.one_of(values))
        whole = b.emit(Concat(0), first, second)
        turned = b.emit(Transpose((1, 0)), whole)
        return b.emit(Reshape(SHAPE), turned) if self.rng.random() < 0.5 else whole

    def constant(self, b: Builder, shape: tuple[int, ...]) -> Value:
        return b.constant(self.rng.uniform(-0.5, 0.5, shape).astype(np.float32))

    def flag(self, b: Builder, value: Value) -> Value:
        """Something that is true now and then."""
        total = b.emit(ReduceSum((0, 1), False), value)
        return b.emit(Less(), b.constant(np.float32(self.rng.uniform(-2, 1))), total)

    def body(self, types: list[TensorType], depth: int, leading: int = 0) -> Function:
        """A function of these types; the first ones are not used as tensors of floats."""
        self.count += 1
        body = Function(f"body{self.count}", self.module)
        given: list[Value] = [body.input(f"p{i}", type) for i, type in enumerate(types)]
        values = given[leading:]
        self.fill(body, values, depth, steps=int(self.rng.integers(1, 5)))
        self.values = values
        return body

    def choice(self, b: Builder, values: list[Value], depth: int) -> Value:
        captured = [self.one_of(values) for _ in range(2)]
        branches = []
        for _ in range(2):
            branch = self.body([FLOATS, FLOATS], depth)
            branch.output("r", self.one_of(self.values))
            branches.append(Subgraph(branch))
        return b.emit(If(*branches), self.flag(b, captured[0]), *captured)

    def loop(self, b: Builder, values: list[Value], depth: int) -> Value:
        body = self.body([NUMBER, FLOATS, FLOATS, FLOATS], depth, leading=1)
        results = [self.one_of(self.values) for _ in range(2)]
        body.output("go", self.flag(Builder(body), results[0]))
        for index, result in enumerate(results):
            body.output(f"r{index}", result)
        limit = b.constant(np.array(self.rng.integers(0, 5)))
        operands = [self.one_of(values) for _ in range(3)]
        flag = self.flag(b, operands[0])
        return b.emit_node(Loop(Subgraph(body), 2), limit, flag, *operands).results[1]

    def scan(self, b: Builder, values: list[Value], depth: int) -> Value:
        row = TensorType(f32, SHAPE[1:])
        body = self.body([row, FLOATS, FLOATS], depth, leading=1)
        inner = Builder(body)
        body.output("r", self.one_of(self.values))
        last = inner.emit(Slice((1, 0), (1, 4), (1, 1)), self.one_of(self.values))
        flat = inner.emit(Reshape((4,)), last)
        body.output("part", inner.emit(Add(), flat, body.inputs[0]))
        inputs = [body.inputs[1], body.inputs[0], body.inputs[2]]
        body.inputs = inputs
        carried, scanned, captured = (self.one_of(values) for _ in range(3))
        scan = Scan(Subgraph(body), SHAPE[0], carried=1, scanned=1)
        results = b.emit_node(scan, carried, scanned, captured).results
        return b.emit(Cast(f32), results[int(self.rng.integers(2))])
