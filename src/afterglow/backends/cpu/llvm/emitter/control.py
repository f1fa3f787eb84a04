"""Loops and branches. Blocks and phis are written here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.emitter.conversion import convert
from afterglow.backends.cpu.llvm.emitter.extents import extent_value
from afterglow.backends.cpu.llvm.emitter.pointer import Index
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.types.dtype import DType
from afterglow.types.extent import RangedExtent

Body = Callable[[Value, list[Value]], Sequence[Value]]
"""A step of a loop: takes the index and the carried values, returns the values carried on."""
Results = Callable[[], Sequence[Value]]
"""One side of a branch: returns its results."""

_LIKELY = {True: ", !prof !1", False: ", !prof !2", None: ""}


class Control(Code):
    """Control flow, on top of straight code."""

    def extent_value(self, extent: RangedExtent, dtype: DType) -> Value:
        """A ranged extent in the run at hand, computed where the function begins."""
        value = extent_value(self, extent)
        if dtype is value.dtype:
            return value
        with self.at_entry():
            return convert(value, dtype)

    def index(self, number: Index) -> Value:
        """A count of elements, as a value."""
        if isinstance(number, Value):
            return convert(number, self.index_type)
        return Value.of(self, self.index_type, number)

    @contextmanager
    def loop(
        self, stop: Index, *, start: Index = 0, step: int = 1, name: str = "i"
    ) -> Iterator[Value]:
        """Repeat a block for start, start + step, … below stop; the index is what `with` gives."""
        loop = _Loop(self, start, stop, step, [], name)
        yield loop.index
        loop.close([])

    def fold(
        self,
        stop: Index,
        carried: Sequence[Value],
        body: Body,
        *,
        start: Index = 0,
        step: int = 1,
        unroll: int = 1,
        name: str = "i",
    ) -> list[Value]:
        """Repeat a step that carries values along, and return what the last one left.

        With `unroll` the body is written that many times in a row, and once more for the rest.
        """
        first, last = self.index(start), self.index(stop)
        if unroll > 1:
            return self._fold_unrolled(first, last, carried, body, step, unroll, name)
        trips = _trips(first, last, step)
        if trips == 0:
            return list(carried)
        loop = _Loop(self, first, last, step, carried, name)
        return loop.close(list(body(loop.index, loop.carried)))

    def _fold_unrolled(
        self,
        start: Value,
        stop: Value,
        carried: Sequence[Value],
        body: Body,
        step: int,
        unroll: int,
        name: str,
    ) -> list[Value]:
        stride = step * unroll

        def several(index: Value, state: list[Value]) -> list[Value]:
            for copy in range(unroll):
                state = list(body(index + copy * step, state))
            return state

        trips = _trips(start, stop, step)
        if trips is None:
            whole = stop - self._left_over(stop - start, stride)
        else:
            whole = start + (trips // unroll) * stride
        state = self.fold(whole, carried, several, start=start, step=stride, name=name)
        if trips is None:
            return self.fold(stop, state, body, start=whole, step=step, name=name)
        for copy in range(trips % unroll):
            state = list(body(whole + copy * step, state))
        return state

    def keep_addresses(self) -> None:
        """Have LLVM leave the addresses of the innermost loop, whose body ends here, as they are.

        Its strength reduction takes half the time of code generation and makes nothing faster, for
        loops here advance few pointers already. It can only be turned off for all users of LLVM
        in a process, but it passes over loops that have others inside. So this is one, which
        never repeats: LLVM folds the branch that says so afterwards.
        """
        never, after = self.fresh("never."), self.fresh("last.")
        self.perform(f"br label %{never}")
        self.start_block(never)
        self.perform(f"br i1 false, label %{never}, label %{after}")
        self.start_block(after)

    def _left_over(self, count: Value, stride: int) -> Value:
        """count modulo stride, of a count that is not negative; 0 if it is."""
        zero = count.like(0)
        positive = count.derive(
            f"call {count.type} @llvm.smax.{count.type}({count.typed}, {zero.typed})"
        )
        return count.derive(f"urem {positive.typed}, {stride}")

    def iterate(
        self,
        state: Sequence[Value],
        body: Callable[[list[Value]], Sequence[Value]],
        *,
        while_: Callable[[list[Value]], Value],
    ) -> list[Value]:
        """Repeat a step while a condition on the state holds, which is asked before each."""
        head, inside, after = (self.fresh(part) for part in ("while.", "do.", "done."))
        entry = self.block
        self.perform(f"br label %{head}")
        self.start_block(head)
        places = [self.reserve() for _ in state]
        phis = [Value(self, v.dtype, v.lanes, f"%{self.fresh('s')}") for v in state]
        condition = while_(phis)
        self.perform(f"br {condition.typed}, label %{inside}, label %{after}")
        self.start_block(inside)
        following = list(body(phis))
        self.perform(f"br label %{head}")
        edges = zip(places, phis, state, following, strict=True)
        for place, phi, before, next_ in edges:
            self.fill(place, _phi(phi, (before, entry), (next_, self.block)))
        self.start_block(after)
        return phis

    @contextmanager
    def when(self, condition: Value, *, likely: bool | None = None) -> Iterator[None]:
        """Run a block only if a condition holds."""
        inside, after = self.fresh("then."), self.fresh("end.")
        self.perform(f"br {condition.typed}, label %{inside}, label %{after}{_LIKELY[likely]}")
        self.start_block(inside)
        yield
        self.perform(f"br label %{after}")
        self.start_block(after)

    def branch(
        self, condition: Value, then: Results, otherwise: Results, *, likely: bool | None = None
    ) -> list[Value]:
        """Run one of two blocks, and return the results of the one that ran."""
        first, second, after = (self.fresh(part) for part in ("then.", "else.", "end."))
        self.perform(f"br {condition.typed}, label %{first}, label %{second}{_LIKELY[likely]}")
        results: list[tuple[list[Value], str]] = []
        for label, way in ((first, then), (second, otherwise)):
            self.start_block(label)
            results.append((list(way()), self.block))
            self.perform(f"br label %{after}")
        self.start_block(after)
        (left, left_block), (right, right_block) = results
        merged = []
        for a, b in zip(left, right, strict=True):
            phi = Value(self, a.dtype, a.lanes, f"%{self.fresh('r')}")
            self.perform(_phi(phi, (a, left_block), (b, right_block)))
            merged.append(phi)
        return merged


class _Loop:
    """A loop that is being written: made before its body, closed after it.

    A loop that may not run at all is entered through a test, so that the body's own test stands
    at its end, which is the fastest place for it. One that runs once is not a loop.
    """

    def __init__(
        self,
        code: Control,
        start: Index,
        stop: Index,
        step: int,
        carried: Sequence[Value],
        name: str,
    ) -> None:
        self.code = code
        self.start, self.stop, self.step = code.index(start), code.index(stop), step
        self.initial = list(carried)
        self.trips = _trips(self.start, self.stop, step)
        if self.trips == 1:
            self.index, self.carried = self.start, self.initial
            return
        code.loops += 1
        self.loops = code.loops
        self.head, self.exit = code.fresh(f"{name}.loop."), code.fresh(f"{name}.end.")
        self.before = code.block
        if self.trips is None or self.trips == 0:
            enters = self.start < self.stop
            code.perform(f"br {enters.typed}, label %{self.head}, label %{self.exit}")
        else:
            code.perform(f"br label %{self.head}")
        code.start_block(self.head)
        kinds = [self.start, *self.initial]
        self.places = [code.reserve() for _ in kinds]
        phis = [
            Value(code, kind.dtype, kind.lanes, f"%{code.fresh(name if not order else 'c')}")
            for order, kind in enumerate(kinds)
        ]
        self.index, *self.carried = phis

    def close(self, following: list[Value]) -> list[Value]:
        """Go round again or on; returns the carried values as they are after the loop."""
        if self.trips == 1:
            return following
        code = self.code
        if code.loops == self.loops:
            code.keep_addresses()
        advance = f"add nuw nsw {self.index.typed}, {self.step}"
        index = self.index.derive(advance)
        again = index < self.stop
        last = code.block
        code.perform(f"br {again.typed}, label %{self.head}, label %{self.exit}")
        edges = zip(
            self.places,
            [self.index, *self.carried],
            [self.start, *self.initial],
            [index, *following],
            strict=True,
        )
        for place, phi, before, next_ in edges:
            code.fill(place, _phi(phi, (before, self.before), (next_, last)))
        code.start_block(self.exit)
        if self.trips:
            return following
        return [
            self._merged(first, final, last)
            for first, final in zip(self.initial, following, strict=True)
        ]

    def _merged(self, initial: Value, final: Value, last: str) -> Value:
        phi = Value(self.code, initial.dtype, initial.lanes, f"%{self.code.fresh('r')}")
        self.code.perform(_phi(phi, (initial, self.before), (final, last)))
        return phi


def _trips(start: Value, stop: Value, step: int) -> int | None:
    """How often a loop runs, if that is known now."""
    if start.constant is None or stop.constant is None:
        return None
    return len(range(int(start.constant), int(stop.constant), step))


def _phi(result: Value, *edges: tuple[Value, str]) -> str:
    for value, _ in edges:
        if value.type != result.type:
            raise TypeError(f"a carried {result.type} becomes {value.type}")
    sources = ", ".join(f"[{value.text}, %{block}]" for value, block in edges)
    return f"{result.text} = phi {result.type} {sources}"
