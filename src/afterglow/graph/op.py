"""What an op is: a frozen value that carries every fact about one operation.

A subclass decorated with `@op("mnemonic")` declares, in one place:

===============  ==========================  =============================================
facet            takes                       asked by
===============  ==========================  =============================================
docstring        -                           the generated op reference
fields           -                           printer, parser, hash, equality
``infer``        `TensorType`s               builder, verifier, parser, importer
``evaluate``     NumPy arrays                constant folder, interpreter, conformance tests
``gradient``     builder, values             autodiff; without it, that of the lowering
``lower``        builder, values             lowering; without it the op is a primitive
``select``       program builder, buffers    instruction selection; without it, one to one
``index_ranges`` types of operands           interpreter, kernels, the check of constants
``permuted``     a permutation of axes       transpose sinking
``parallel``     an axis of the result       stacking and splitting
``with_halo``    types of operands           memory: a halo instead of padding
``band``         a part of the result        splitting, which runs a chain of ops part by part
``work``         types of operands           splitting, which computes some elements twice
===============  ==========================  =============================================

The parameters of ``infer`` are the operand list. A parameter with the default None is optional, a
starred one takes any number. The other facets repeat those names; `@op` checks that at import.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from afterglow.graph.band import Band, Cut
from afterglow.support.errors import InternalError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, IndexRanges, TensorType

if TYPE_CHECKING:
    from afterglow.graph.builder import Builder
    from afterglow.graph.value import Gradients

OpT = TypeVar("OpT", bound="Op")
OperandT = TypeVar("OperandT")

OPS: dict[str, type[Op]] = {}
"""Every declared op by its mnemonic, in order of declaration."""


@dataclass(frozen=True)
class Halo:
    """Elements around the first operand in memory, and the op without padding that reads them.

    `before` and `after` count elements along each axis, which hold `value`.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float
    op: Op


class Op:
    """Base of all ops. Class variables are facts about the op as such, fields its attributes."""

    mnemonic: ClassVar[str] = ""
    operand_names: ClassVar[tuple[str, ...]] = ()
    required: ClassVar[int] = 0
    """The number of leading operands that are required."""
    variadic: ClassVar[bool] = False
    """Whether the last operand name stands for any number of operands."""
    result_names: ClassVar[tuple[str, ...]] = ("",)
    """Suffixes that tell several results apart; one empty name for a single result."""
    inplace: ClassVar[tuple[str, ...]] = ()
    """Operands that the result may overwrite in place, element for element."""
    reads_once: ClassVar[tuple[str, ...]] = ()
    """Operands that are read once, for one row of results: fusing their producer is free."""
    elementwise: ClassVar[bool] = False
    """Whether result element i depends on nothing but the (broadcast) operand elements i."""
    pure: ClassVar[bool] = True
    """Whether equal operands give equal results, so that it may be folded, merged and dropped."""
    moves_only: ClassVar[bool] = False
    """Whether it only moves elements, so that their type does not matter to it."""
    dequantizes: ClassVar[bool] = False
    """Whether its operand is a smaller, quantized form of the result: the one to store."""
    stored: ClassVar[tuple[str, ...]] = ()
    """Operands whose narrow floats stay as they are: memory that is not worth a conversion."""
    takes_any_order: ClassVar[bool] = False
    """Whether axes of operands and results, but the last, may lie in memory in any order."""
    states_types: ClassVar[bool] = False
    """Whether the types of its results are stated where it is applied, as no rule gives them."""
    host: ClassVar[bool] = False
    """Whether it works on strings, trees or look-up tables: the host runs it, by `evaluate`."""
    own: ClassVar[bool] = False
    """Whether a user declared it: what its functions return is checked, as its author may err."""
    expands: ClassVar[bool] = False
    """Whether it stands for its lowering, which replaces it before a graph is optimised."""
    along_axis: ClassVar[tuple[str, ...]] = ()
    """Operands that, if they are vectors, run along the op's own axis: `permuted` keeps them."""
    results_along_axis: ClassVar[bool] = False
    """Whether its results are vectors along the op's own axis, and `permuted` keeps them."""

    def required_of(self, operands: Sequence[OperandT | None]) -> tuple[OperandT, ...]:
        """The required ones of the operands, which may be types, values or buffers."""
        found = tuple(x for x in operands[: self.required] if x is not None)
        if len(found) < self.required:
            names = ", ".join(self.operand_names[: self.required])
            raise InternalError(f"{self.mnemonic} lacks one of its operands {names}")
        return found

    def infer(self, *operands: Any) -> TensorType | tuple[TensorType, ...]:
        """Return the type of the result, or of each; raise `TypeRuleError` if there is none."""
        raise NotImplementedError

    def evaluate(self, *operands: Any) -> Array | tuple[Array, ...]:
        """Return the result: this is what the op means."""
        raise NotImplementedError

    def gradient(self, b: Builder, out: Any, grad: Any, *operands: Any) -> Gradients | None:
        """Emit the gradient of each operand, given the result and its gradient.

        An entry is None where nothing flows back. It may have any shape to which the operand
        broadcasts: whoever asks sums over the axes along which the operand was repeated. An op with
        several results gets tuples of them and of their gradients, of which some may be None.
        None for all of it: then the lowering is differentiated.
        """
        return None

    def lower(self, b: Builder, *operands: Any) -> Any:
        """Emit simpler ops that compute the same and return their result; None for a primitive."""
        return None

    def select(self, *program_outs_operands: Any) -> None:
        """Emit the instructions that compute the op; the default is the one that carries it."""
        raise NotImplementedError

    def permuted(self, perm: tuple[int, ...]) -> Op | None:
        """The op such that op'(transpose(x, perm)…) = transpose(op(x…), perm), if there is one.

        Operands of a lower rank are first broadcast to that of the result, all but vectors that
        run along the op's own axis.
        """
        return self if self.elementwise else None

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """The operands that hold indices, lengths or counts, and the ranges these must lie in.

        Whoever runs the op checks them first: `evaluate` may rely on them.
        """
        return {}

    def with_halo(self, operands: Sequence[TensorType | None]) -> Halo | None:
        """The halo around its first operand that replaces its padding; None if it has none."""
        return None

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """For a parallel axis of the result, the axis of each operand that it corresponds to.

        If so, a part of the result along `axis` follows from the same part of the operands along
        those axes; an operand with None is read whole. The answer is None if it is not so.
        """
        if not self.elementwise:
            return None
        return tuple(None if x is None else aligned_axis(axis, result, x) for x in operands)

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """How to compute a part of the result without the rest of it, if that can be done.

        The default is for ops whose attributes tell nothing about extents: the same op, along an
        axis that is parallel.
        """
        runs = self.parallel(cut.axis, result, operands)
        if runs is None:
            return None
        return Band(self, tuple(None if axis is None else replace(cut, axis=axis) for axis in runs))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """An estimate of its arithmetic operations; by default the number of result elements."""
        return 0 if self.moves_only else result.size

    def weight_uses(self, operands: Sequence[TensorType | None]) -> Mapping[str, int]:
        """Constant operands that may be stored in 16 bits where the op computes in f32.

        Each with the number of products that use an element each time it is read.
        """
        return {}

    def carried_values(self) -> tuple[tuple[int, int], ...]:
        """Of an op that iterates: pairs of an input of the body and the result that it holds next.

        Both are indices, into the inputs and the outputs of the body.
        """
        return ()

    @classmethod
    def decomposes(cls) -> bool:
        """Whether simpler ops compute the same: see `lower`."""
        return cls.lower is not Op.lower

    @classmethod
    def is_primitive(cls) -> bool:
        """Whether a backend must have a kernel for it: it computes numbers and has no lowering."""
        return not cls.decomposes() and not cls.has_own_selection() and not cls.host

    @classmethod
    def has_own_selection(cls) -> bool:
        """Whether the op may become other instructions than its own `OpInstr`."""
        return cls.select is not Op.select

    def selects_itself(self) -> bool:
        """Whether, with these attributes, it becomes other instructions than its own `OpInstr`."""
        return self.has_own_selection()


@dataclass_transform(frozen_default=True)
def op(mnemonic: str) -> Callable[[type[OpT]], type[OpT]]:
    """Declare an op: freeze its attributes, read its operands off `infer`, and register it."""

    def declare(cls: type[OpT]) -> type[OpT]:
        cls = dataclass(frozen=True)(cls)
        cls.mnemonic = mnemonic
        _read_operands(cls)
        for facet in ("evaluate", "gradient", "lower", "select"):
            if facet in vars(cls):
                _check_operands(cls, facet)
        _check_declaration(cls, mnemonic)
        OPS[mnemonic] = cls
        return cls

    return declare


def _read_operands(cls: type[Op]) -> None:
    names, variadic = _parameters(cls.infer)
    cls.operand_names = names
    cls.variadic = variadic
    cls.required = len(names) - variadic - len(cls.infer.__defaults__ or ())


def _check_operands(cls: type[Op], facet: str) -> None:
    """A facet ends with the parameters of `infer`, in its order."""
    names, _ = _parameters(getattr(cls, facet))
    operands = cls.operand_names
    if names[len(names) - len(operands) :] != operands:
        raise TypeError(f"{cls.__name__}.{facet} takes {names}, infer takes {operands}")


def _parameters(facet: Any) -> tuple[tuple[str, ...], bool]:
    """The names of a facet's parameters behind `self`, and whether the last one takes many.

    `inspect.signature` says the same, in a fourth of the time that the catalogue takes to import.
    """
    code = inspect.unwrap(facet).__code__
    variadic = bool(code.co_flags & inspect.CO_VARARGS)
    return code.co_varnames[1 : code.co_argcount + variadic], variadic


def _check_declaration(cls: type[Op], mnemonic: str) -> None:
    if mnemonic in OPS:
        raise TypeError(f"op '{mnemonic}' is declared twice")
    if not cls.__doc__:
        raise TypeError(f"op '{mnemonic}' has no docstring")
    unknown = {*cls.inplace, *cls.reads_once} - set(cls.operand_names)
    if unknown:
        raise TypeError(f"op '{mnemonic}' names operands {sorted(unknown)}, which infer lacks")


def aligned_axis(axis: int, result: TensorType, operand: TensorType) -> int | None:
    """The axis of a broadcast operand that meets an axis of the result; None if it is repeated."""
    position = axis - (result.rank - operand.rank)
    repeated = position < 0 or operand.shape[position] != result.shape[axis]
    return None if repeated else position


def result_types(inferred: TensorType | tuple[TensorType, ...]) -> tuple[TensorType, ...]:
    """What `infer` returned, always as a tuple."""
    return inferred if isinstance(inferred, tuple) else (inferred,)
