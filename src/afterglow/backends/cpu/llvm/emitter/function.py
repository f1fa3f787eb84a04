"""Writing a function: its arguments, its scratch memory, its calls, its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from afterglow.backends.cpu.llvm.emitter.control import Control
from afterglow.backends.cpu.llvm.emitter.pointer import Index, Pointer
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.backends.cpu.llvm.types import POINTER, spell, spell_in_memory
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, boolean

if TYPE_CHECKING:
    from afterglow.backends.cpu.llvm.emitter.module import Module

VOID = "void"
"""The result of a function that has none."""


@dataclass(frozen=True)
class FunctionSymbol:
    """Something that can be called: its symbol and LLVM's types of its result and parameters.

    A variadic one takes more arguments after those, of any type.
    """

    name: str
    result: str
    parameters: tuple[str, ...]
    variadic: bool = False

    @property
    def symbol(self) -> str:
        """LLVM's name of it."""
        return f"@{self.name}"

    @property
    def signature(self) -> str:
        """The types, as a call of a variadic function must say them."""
        return f"{self.result} ({', '.join([*self.parameters, '...'])})"


class Emitter(Control):
    """Writes one function. `with module.function(name) as e` makes it and closes it.

    Arguments are declared in order, before anything else by good habit:

    >>> from afterglow.backends.cpu import Module, Target
    >>> from afterglow.types.dtype import f32
    >>> module = Module(Target.of("x86-64-v3"))
    >>> with module.function("double") as e:
    ...     x = e.pointer("x", f32)
    ...     x.store(x.load(lanes=8) * 2.0)
    >>> "fmul <8 x float>" in module.text
    True
    """

    def __init__(self, module: Module, name: str, *, internal: bool = False) -> None:
        super().__init__(module.target)
        self.module = module
        self.name = name
        self.internal = internal
        self._parameters: list[tuple[str, str]] = []
        self._result = VOID

    def lanes(self, dtype: DType) -> int:
        """How many elements fill a vector register of the target."""
        return max(1, self.target.vector_bits // max(dtype.bits, 8))

    def argument(self, name: str, dtype: DType, lanes: int = 1) -> Value:
        """The next parameter of the function: a number, or a vector of them."""
        kind = spell(dtype, lanes)
        self._parameters.append((kind, f"{kind} %{name}"))
        return Value(self, dtype, lanes, f"%{name}")

    def count(self, name: str) -> Value:
        """The next parameter of the function: a number of elements."""
        return self.argument(name, self.index_type)

    def pointer(
        self, name: str, dtype: DType, *, align: int | None = None, alone: bool = False
    ) -> Pointer:
        """The next parameter of the function: an address, with guarantees of the caller.

        It is a multiple of `align` bytes; if `alone`, nothing else points to what is there.
        """
        facts = (" noalias" if alone else "") + (f" align {align}" if align else "")
        self._parameters.append((POINTER, f"ptr{facts} %{name}"))
        return Pointer(self, dtype, f"%{name}", 0, align)

    def constant(self, dtype: DType, number: float, lanes: int = 1) -> Value:
        """A number known now, the same in all lanes."""
        return Value.of(self, dtype, number, lanes)

    def scratch(self, dtype: DType, count: int, *, align: int = 64) -> Pointer:
        """Memory on the stack, for as long as the function runs."""
        name = f"%{self.fresh('scratch')}"
        kind = f"[{count} x {spell_in_memory(dtype)}]"
        self.scratch_lines.append(f"  {name} = alloca {kind}, align {align}")
        return Pointer(self, dtype, name, 0, align)

    def call(self, function: FunctionSymbol, *arguments: Value | Pointer, result: DType) -> Value:
        """Call a function and return its result, of which the caller knows the element type."""
        lanes = 1
        if function.result.startswith("<"):
            lanes = int(function.result[1:].split(" ")[0])
        if function.result != spell(result, lanes):
            raise TypeError(f"{function.symbol} returns {function.result}, not {result}")
        return Value(self, result, lanes, self.define(_call(function, arguments)))

    def run(self, function: FunctionSymbol, *arguments: Value | Pointer) -> None:
        """Call a function for what it does."""
        self.perform(_call(function, arguments))

    def run_at(self, address: Pointer, *arguments: Value | Pointer) -> None:
        """Call the function at an address, which takes these arguments and returns nothing."""
        self.perform(f"call void {address.address()}({_arguments(arguments)})")

    def address_of(self, function: FunctionSymbol, dtype: DType) -> Pointer:
        """Where a function's code begins."""
        return Pointer(self, dtype, function.symbol)

    def load_pointer(self, table: Pointer, index: Index, dtype: DType) -> Pointer:
        """An address that lies in memory, in a table of elements as wide as addresses."""
        place = table + index
        text = f"load ptr, ptr {place.address()}, align {self.target.pointer_bits // 8}"
        return Pointer(self, dtype, self.define(text, "p"))

    def store_pointer(self, table: Pointer, index: Index, pointer: Pointer) -> None:
        """Write an address into such a table."""
        place, address = (table + index).address(), pointer.address()
        align = self.target.pointer_bits // 8
        self.perform(f"store ptr {address}, ptr {place}, align {align}")

    def number_of(self, pointer: Pointer) -> Value:
        """An address as a number."""
        kind = spell(self.index_type)
        text = f"ptrtoint ptr {pointer.address()} to {kind}"
        return Value(self, self.index_type, 1, self.define(text))

    def is_null(self, pointer: Pointer) -> Value:
        """Whether an address is null."""
        return Value(self, boolean, 1, self.define(f"icmp eq ptr {pointer.address()}, null"))

    def is_same(self, a: Pointer, b: Pointer) -> Value:
        """Whether two addresses are equal."""
        text = f"icmp eq ptr {a.address()}, {b.address()}"
        return Value(self, boolean, 1, self.define(text))

    def copy(self, to: Pointer, source: Pointer, count: Index) -> None:
        """Copy elements; the two places do not overlap."""
        size = self.index(count) * to.dtype.itemsize
        arguments = f"{to.operand()}, {source.operand()}, {size.typed}, i1 false"
        self.perform(f"call void @llvm.memcpy.p0.p0.{size.type}({arguments})")

    def zero(self, to: Pointer, count: Index) -> None:
        """Set the bytes of elements to zero."""
        size = self.index(count) * to.dtype.itemsize
        arguments = f"{to.operand()}, i8 0, {size.typed}, i1 false"
        self.perform(f"call void @llvm.memset.p0.{size.type}({arguments})")

    def comment(self, text: str) -> None:
        """A remark for whoever reads the text."""
        self.lines.append(f"  ; {text}")

    def return_(self, value: Value) -> None:
        """End the function with a result; the last thing that is written."""
        self._result = value.type
        self.perform(f"ret {value.typed}")

    def return_pointer(self, pointer: Pointer) -> None:
        """End the function with an address as its result; the last thing that is written."""
        self._result = POINTER
        self.perform(f"ret ptr {pointer.address()}")

    def return_pair(self, first: Value, second: Value) -> None:
        """End the function with two results; the last thing that is written."""
        self._result = f"{{ {first.type}, {second.type} }}"
        half = self.define(f"insertvalue {self._result} poison, {first.typed}, 0")
        pair = self.define(f"insertvalue {self._result} {half}, {second.typed}, 1")
        self.perform(f"ret {self._result} {pair}")

    @property
    def function(self) -> FunctionSymbol:
        """The function, for others to call."""
        return FunctionSymbol(self.name, self._result, tuple(kind for kind, _ in self._parameters))

    def close(self) -> str:
        """The text of the function."""
        if self._result == VOID:
            self.perform("ret void")
        linkage = "internal " if self.internal else ""
        parameters = ", ".join(text for _, text in self._parameters)
        head = f"define {linkage}{self._result} @{self.name}({parameters}) #0 {{"
        return "\n".join(
            [head, "entry:", *self.scratch_lines, *self.entry_lines, *self.lines, "}", ""]
        )


def _call(function: FunctionSymbol, arguments: Sequence[Value | Pointer]) -> str:
    kinds = tuple(POINTER if isinstance(a, Pointer) else a.type for a in arguments)
    fixed = len(function.parameters)
    if kinds[:fixed] != function.parameters or (len(kinds) > fixed and not function.variadic):
        wanted = ", ".join(function.parameters)
        raise TypeError(f"{function.symbol} takes ({wanted}), got ({', '.join(kinds)})")
    what = function.signature if function.variadic else function.result
    return f"call {what} {function.symbol}({_arguments(arguments)})"


def _arguments(arguments: Sequence[Value | Pointer]) -> str:
    return ", ".join(f"ptr {a.address()}" if isinstance(a, Pointer) else a.typed for a in arguments)
