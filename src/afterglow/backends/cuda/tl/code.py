"""The text of one kernel while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import reduce

from afterglow.backends.cuda.tl.pointer import Pointer
from afterglow.backends.cuda.tl.types import literal, number_text, spell
from afterglow.backends.cuda.tl.value import Shape, Value, broadcast
from afterglow.backends.items.language import offset
from afterglow.types import Array
from afterglow.types.dtype import DType, i32, i64

__all__ = ["Code", "Pointer", "offset"]

INDENT = "    "
PROGRAM = "tl.program_id(0)"
"""Which program this is along the first axis of the grid."""


class Code:
    """Lines of a function in Triton's language, and names that are unique.

    `index_type` is the integer that counts elements. `shape` is that of the block of items that a
    program works on, which variables have. What is inside of `when` is masked: loads and stores
    touch no memory where the condition does not hold, and variables keep what they are.
    `declare_table` makes a constant a parameter of the kernel.
    """

    def __init__(
        self,
        *,
        index_type: DType = i32,
        shape: Shape = (),
        declare_table: Callable[[Array], Pointer] | None = None,
    ) -> None:
        self.index_type = index_type
        self.shape = shape
        self.lines: list[str] = []
        self.double = True
        self._declare_table = declare_table
        self._masks: list[Value] = []
        self._variables: dict[str, int] = {}
        """Of each variable, how many masks there were when it was made."""
        self._names = 0
        self._depth = 1
        self._outermost = 0
        """The line at which the statements begin that the next line is part of."""
        self._awaited = ""
        """What is to be done before memory is accessed that other kernels write."""

    def fresh(self, hint: str) -> str:
        """A name that nothing else in the kernel has."""
        self._names += 1
        return f"{hint}{self._names}"

    def define(self, text: str, dtype: DType, shape: Shape = (), hint: str = "v") -> Value:
        """Write an expression as a value of its own."""
        name = self.fresh(hint)
        self.perform(f"{name} = {text}")
        return Value(self, dtype, name, shape)

    def perform(self, text: str) -> None:
        """Write a statement."""
        self.lines.append(INDENT * self._depth + text)

    def wait_by(self, text: str) -> None:
        """Have a statement come before all that accesses memory which other kernels write."""
        self._awaited = text

    def wait(self) -> None:
        """Write that statement, unless it was: ahead of the blocks that the next line is in."""
        if self._awaited:
            place = len(self.lines) if self._depth == 1 else self._outermost
            self.lines.insert(place, INDENT + self._awaited)
            self._awaited = ""

    def constant(self, dtype: DType, number: float, lanes: int = 1) -> Value:
        """A number known now."""
        assert lanes == 1
        return Value(self, dtype, literal(dtype, number), (), number)

    def index(self, number: int) -> Value:
        """A number of elements that is known now."""
        text = number_text(self.index_type, number)
        return Value(self, self.index_type, text, (), number, is_index=True)

    def named(self, index: Value) -> Value:
        """An index under a name of its own, so that it is computed once."""
        if index.constant is not None:
            return self.index(int(index.constant))
        text = index.text
        if index.dtype is not self.index_type:
            text = f"{text}.to({spell(self.index_type)})"
        return self.as_index(self.define(text, self.index_type, index.shape))

    def number(self, index: Value) -> Value:
        """An index as an integer like others."""
        if index.constant is not None:
            return self.constant(self.index_type, index.constant)
        return self.define(index.text, self.index_type, index.shape)

    def as_index(self, value: Value) -> Value:
        """The same number as one that counts elements."""
        return Value(self, self.index_type, value.text, value.shape, value.constant, is_index=True)

    def program(self, axis: int = 0) -> Value:
        """Which program this is along an axis of the grid."""
        text = PROGRAM if axis == 0 else f"tl.program_id({axis})"
        if self.index_type is i64:
            text += ".to(tl.int64)"
        return self.as_index(self.define(text, self.index_type))

    def range(self, count: int) -> Value:
        """The numbers from 0 to a power of two, as a block of one axis."""
        text = f"tl.arange(0, {count})"
        if self.index_type is i64:
            text += ".to(tl.int64)"
        return self.as_index(self.define(text, self.index_type, (count,)))

    def zeros(self, shape: Shape) -> Value:
        """A block of indices that are all zero."""
        return self.as_index(
            self.define(f"tl.zeros({shape}, {spell(self.index_type)})", self.index_type, shape)
        )

    def along(self, value: Value, axis: int, rank: int) -> Value:
        """A block of one axis as a block of `rank` axes, of which the others have extent 1."""
        assert len(value.shape) == 1
        if rank == 1:
            return value
        places = ", ".join(":" if n == axis else "None" for n in range(rank))
        shape = tuple(value.shape[0] if n == axis else 1 for n in range(rank))
        text = f"{value.text}[{places}]"
        made = self.define(text, value.dtype, shape)
        return self.as_index(made) if value.is_index else made

    def variable(self, start: Value, hint: str = "a", shape: Shape | None = None) -> Value:
        """A name whose value can be changed by `assign`, of the shape of the items."""
        shape = broadcast(self.shape, start.shape) if shape is None else shape
        text = start.text
        if start.constant is not None:
            text = literal(start.dtype, start.constant, shape)
        elif start.shape != shape:
            text = f"tl.broadcast_to({text}, {shape})"
        made = self.define(text, start.dtype, shape, hint)
        self._variables[made.text] = len(self._masks)
        return made

    def assign(self, variable: Value, value: Value) -> None:
        """Change what a variable holds, where the conditions around hold."""
        if value.dtype is not variable.dtype:
            raise TypeError(f"a variable of {variable.dtype} does not take {value.dtype}")
        masks = self._masks[self._variables[variable.text] :]
        shape = broadcast(variable.shape, value.shape, *(mask.shape for mask in masks))
        if shape != variable.shape:
            raise TypeError(f"a variable of shape {variable.shape} does not take {shape}")
        text = value.text
        for mask in reversed(masks):
            text = f"tl.where({mask.text}, {text}, {variable.text})"
        if not masks and value.shape != variable.shape:
            text = f"tl.broadcast_to({text}, {variable.shape})"
        self.perform(f"{variable.text} = {text}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Statements that take effect where a condition holds."""
        self._masks.append(condition)
        yield
        self._masks.pop()

    def mask(self, condition: Value) -> None:
        """Have everything that follows take effect where a condition holds."""
        self._masks.append(condition)

    @contextmanager
    def branch(self, condition: Value) -> Iterator[None]:
        """Statements that a program runs only if a condition holds, a scalar."""
        assert condition.shape == ()
        with self.block(f"if {condition.text}:"):
            yield

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Statements that belong together, behind a head such as `if …:`."""
        if self._depth == 1:
            self._outermost = len(self.lines)
        self.perform(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.perform("pass")
        self._depth -= 1

    @contextmanager
    def loop(
        self, end: Value | int, start: Value | int = 0, step: int = 1, *, unroll: int = 1
    ) -> Iterator[Value]:
        """Statements that run for start, start + step, … below the end.

        Where the bounds differ between items, all go from the least to the largest. `unroll` is how
        often the statements are written one after the other.
        """
        if isinstance(start, Value) and start.shape and step != 1:
            raise TypeError("items that begin at different places take steps of 1")
        first, last = self._bound(start, "min"), self._bound(end, "max")
        counter = self.fresh("i")
        head = f"range({first}, {last}, {step})"
        if unroll > 1:
            head = f"tl.range({first}, {last}, {step}, loop_unroll_factor={unroll})"
        with self.block(f"for {counter} in {head}:"):
            index = self._counted(counter)
            own = [
                index.combined(symbol, bound)
                for symbol, bound in ((">=", start), ("<", end))
                if isinstance(bound, Value) and bound.shape
            ]
            self._masks += own
            yield index
            del self._masks[len(self._masks) - len(own) :]

    def _counted(self, counter: str) -> Value:
        """What a loop counts, as an index: the counter has 32 bits if its bounds have."""
        if self.index_type is i64:
            return self.as_index(self.define(f"{literal(i64, 0)} + {counter}", i64))
        return Value(self, self.index_type, counter, is_index=True)

    def _bound(self, bound: Value | int, extreme: str) -> str:
        """An end of a loop that all items run together: of those for which conditions hold."""
        if not isinstance(bound, Value):
            return str(bound)
        if bound.shape == ():
            return bound.text
        low, high = self.index_type.limits
        text = bound.text
        for mask in self.mask_for(bound.shape, exactly=False):
            text = f"tl.where({mask.text}, {text}, {high if extreme == 'min' else low})"
        return self.define(f"tl.{extreme}({text})", self.index_type).text

    def fused_loop(self, end: Value | int, step: int = 1) -> AbstractContextManager[Value]:
        """A loop in which `add_product` rounds once."""
        return self.loop(end, step=step)

    def add_product(self, total: Value, x: Value, factor: Value) -> None:
        """Add a product to a variable; floats are rounded once."""
        if not total.dtype.is_float:
            self.assign(total, total + x * factor)
            return
        shape = broadcast(total.shape, x.shape, factor.shape)
        text = f"tl.fma({x.text}, {factor.text}, {total.text})"
        self.assign(total, self.define(text, total.dtype, shape))

    def smaller(self, index: Value, other: Value | int) -> Value:
        """The smaller one of two indices."""
        return self._extreme("minimum", index, other)

    def nearest(self, index: Value, extent: int) -> Value:
        """The index from 0 to below an extent that is the nearest."""
        return self._extreme("minimum", self._extreme("maximum", index, 0), extent - 1)

    def _extreme(self, name: str, index: Value, other: Value | int) -> Value:
        theirs = other if isinstance(other, Value) else self.index(other)
        if index.constant is not None and theirs.constant is not None:
            choose = min if name == "minimum" else max
            return self.index(int(choose(index.constant, theirs.constant)))
        shape = broadcast(index.shape, theirs.shape)
        text = f"tl.{name}({index.text}, {theirs.text})"
        return self.as_index(self.define(text, self.index_type, shape))

    def is_below(self, index: Value, end: int) -> Value:
        """Whether an index is below an end."""
        return index < end

    def is_between(self, index: Value, first: Value | int, end: Value | int) -> Value:
        """Whether an index is at the first of a range or behind it, and below its end."""
        return (index >= first) & (index < end)

    def is_multiple(self, index: Value, number: int) -> Value:
        """Whether a number divides an index."""
        return index.combined("%", number).combined("==", 0)

    def all_of(self, conditions: Sequence[Value]) -> Value:
        """Whether all of some conditions hold."""
        return reduce(lambda a, b: a & b, conditions)

    def kept(self, condition: Value) -> Value:
        """The same: conditions have names."""
        return condition

    def halves(self, vector: Value) -> tuple[Value, Value]:
        """There are none: items have no vectors."""
        raise TypeError("a block has a shape, not lanes")

    def table(self, data: Array) -> Pointer:
        """Numbers that the kernel has beside it."""
        assert self._declare_table is not None
        return self._declare_table(data)

    def mask_for(self, shape: Shape, *, exactly: bool) -> list[Value]:
        """The conditions around that concern a block of a shape, or all if so it must be."""
        return [mask for mask in self._masks if exactly or broadcast(mask.shape, shape) == shape]
