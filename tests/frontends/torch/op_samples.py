"""PyTorch's own samples of ops (OpInfo), through export and our importers, against eager."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

import afterglow
from afterglow.frontends.torch.decompositions import is_imported
from afterglow.frontends.torch.tensors import array_of
from afterglow.support.errors import AfterglowError
from afterglow.types import Array

RELATIVE, ABSOLUTE = 1e-4, 1e-5

RANDOM = frozenset(
    {
        *("bernoulli", "multinomial", "normal", "uniform", "exponential", "log_normal", "cauchy"),
        *("rand_like", "randn", "randn_like", "randint", "randint_like", "geometric"),
        *("normal.in_place", "normal.number_mean", "empty", "empty_like", "empty_strided"),
        *("new_empty", "new_empty_strided", "empty_permuted", "nn.functional.dropout"),
        *("nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout"),
        *("nn.functional.feature_alpha_dropout.with_train", "nn.functional.rrelu"),
        *("nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d"),
        *(
            "nn.functional.scaled_dot_product_attention",
            "nn.functional.multi_head_attention_forward",
        ),
        *("svd_lowrank", "pca_lowrank", "nn.functional.feature_alpha_dropout"),
    }
)
"""Ops whose samples draw random numbers or leave elements unset: only types are compared."""


class Outcome(Enum):
    """What became of a sample."""

    RIGHT = "right"
    REFUSED = "refused"
    WRONG = "wrong"
    CRASHED = "crashed"
    NOT_EXPORTED = "not exported"


@dataclass
class Tally:
    """The outcomes of the samples of one op, and why those are what they are."""

    name: str
    counts: dict[Outcome, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: Outcome, reason: str) -> None:
        """Count one sample."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        if reason:
            key = f"{outcome.value}: {reason}"
            self.reasons[key] = self.reasons.get(key, 0) + 1


class Call(torch.nn.Module):
    """A call of an op with the tensors of a sample as inputs; all else is part of the program."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        self.op = op
        self.leaves, self.tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.tensors = tuple(leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor))
        self.drops = sample.kwargs.get("dropout_p", 0) > 0
        self.writes = "batch_norm" in op.name  # whether or not statistics change

    def expected(self) -> list[Any]:
        """What eager PyTorch returns; notes whether it writes into its operands."""
        copies = [tensor.clone() for tensor in self.tensors]
        with torch.no_grad():
            results = pytree.tree_leaves(self(*copies))
        pairs = zip(copies, self.tensors, strict=True)
        self.writes |= any(copy._version or not torch.equal(copy, own) for copy, own in pairs)
        return results

    def forward(self, *tensors: torch.Tensor) -> Any:
        """The results that are tensors."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        if self.writes:  # into copies: what is written is no result
            leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        first, args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return self.op(first, *args, **kwargs)


class Calls(torch.nn.Module):
    """Several calls as one program, which is exported and imported at once."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.calls = list(calls)
        self.tensors = tuple(tensor for call in calls for tensor in call.tensors)
        self.drops = any(call.drops for call in calls)

    def expected(self) -> list[Any]:
        """What eager PyTorch returns."""
        return [result for call in self.calls for result in call.expected()]

    def forward(self, *tensors: torch.Tensor) -> Any:
        """The results of each."""
        rest = iter(tensors)
        return [call(*(next(rest) for _ in call.tensors)) for call in self.calls]


def full_name(op: Any) -> str:
    """The name of an OpInfo with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def op_infos(dtype: torch.dtype) -> Iterator[Any]:
    """The ops of PyTorch's own tests that take an element type."""
    for op in op_db:
        if dtype in op.supported_dtypes("cpu"):
            yield op


def calls_of(op: Any, dtype: torch.dtype, most: int) -> list[Call]:
    """Calls of up to so many samples, spread over all that there are."""
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    if len(samples) > most:
        samples = [samples[index * len(samples) // most] for index in range(most)]
    return [Call(op, sample) for sample in samples]


def export(call: Call | Calls) -> Any:
    """The program of a call."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return torch.export.export(call, call.tensors, strict=False)


def run(program: Any, tensors: Sequence[torch.Tensor], backend: str) -> list[Any]:
    """The results of a program by our own means."""
    model = afterglow.compile(program, backend=backend, cache=False)
    names = [parameter.name for parameter in model.inputs]
    arrays = [array_of(tensor) for tensor in tensors]
    results = model(dict(zip(names, arrays, strict=True)))
    return list(results) if isinstance(results, tuple) else [results]


def judge_all(op: Any, calls: Sequence[Call], backend: str) -> list[tuple[Outcome, str]]:
    """Run calls both ways, all in one program; one by one if that is not all right."""
    if (
        len(calls) > 1
        and not Calls(calls).drops
        and judge(op, Calls(calls), backend)[0] is Outcome.RIGHT
    ):
        return [(Outcome.RIGHT, "")] * len(calls)
    return [judge(op, call, backend) for call in calls]


def judge(op: Any, call: Call | Calls, backend: str = "interpreter") -> tuple[Outcome, str]:
    """Run a call both ways."""
    try:
        expected = call.expected()
        program = export(call)
    except Exception as error:
        return Outcome.NOT_EXPORTED, _first_line(error)
    try:
        found = run(program, call.tensors, backend)
    except AfterglowError as error:
        kind = Outcome.CRASHED if "internal error" in error.what else Outcome.REFUSED
        return kind, f"{error.what} {error.where}".splitlines()[0]
    except Exception as error:
        return Outcome.CRASHED, f"{type(error).__name__}: {_first_line(error)}"
    is_random = full_name(op) in RANDOM or call.drops
    wrong = difference(expected, found, only_types=is_random)
    return (Outcome.WRONG, wrong) if wrong else (Outcome.RIGHT, "")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def difference(expected: Sequence[Any], found: Sequence[Any], *, only_types: bool) -> str:
    """How results differ; nothing if they do not."""
    wanted = [each for each in expected if isinstance(each, (torch.Tensor, int, float))]
    if len(wanted) != len(found):
        return f"{len(found)} results instead of {len(wanted)}"
    for index, (first, second) in enumerate(zip(wanted, found, strict=True)):
        theirs = first.detach() if isinstance(first, torch.Tensor) else torch.tensor(first)
        ours = _tensor(second)
        if tuple(ours.shape) != tuple(theirs.shape):
            return f"result {index} has shape {tuple(ours.shape)}, not {tuple(theirs.shape)}"
        if isinstance(first, torch.Tensor) and ours.dtype != theirs.dtype:
            return f"result {index} holds {ours.dtype}, not {theirs.dtype}"
        if only_types:
            continue
        theirs = theirs.resolve_conj().to(ours.dtype)
        close = torch.isclose(ours, theirs, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
        if not bool(close.all()):
            return f"result {index}: {int((~close).sum())} of {close.numel()} elements differ"
    return ""


def _tensor(array: Array) -> torch.Tensor:
    """An array as a tensor, also of elements that NumPy has not."""
    if array.dtype.kind != "V":
        return torch.from_numpy(np.array(array))
    return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)


def core_without_importer() -> list[str]:
    """Overloads of core ATen that we do not import."""
    return [name for name, op in core_overloads() if not is_imported(op)]


def core_overloads() -> Iterator[tuple[str, Any]]:
    """The overloads that PyTorch calls its core."""
    for packet_name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, packet_name)
        for overload in getattr(packet, "overloads", list)():
            op = getattr(packet, overload)
            if torch.Tag.core in op.tags:
                yield f"{packet_name}.{overload}", op
