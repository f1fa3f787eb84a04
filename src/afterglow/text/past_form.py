"""Recognising ONNX language models: which inputs are the past, and what the others hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from afterglow.runtime import TensorInfo
from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass

CHUNK = 64
"""Tokens of a prompt that go in at once: such models compute the logits of all of them."""
ROLES = {
    "tokens": ("input_ids", "tokens", "token_ids", "ids"),
    "mask": ("attention_mask", "mask"),
    "positions": ("position_ids", "positions", "cache_position"),
    "start": ("write_indices", "write_index", "past_length", "past_seq_len", "start_pos"),
    "length": ("nonpad_kv_seqlen", "total_sequence_length", "total_seq_len", "kv_length"),
    "last": ("seqlens_k",),
}
"""What inputs other than the past hold, by their names."""
TIMES = {"past", "present", "new", "updated", "next", "in", "out", "input", "output", "old"}
"""Words by which the names of a past and of what it becomes differ."""
_PHRASES = re.compile(r"(past|present|new|updated)_key_values")


def role_of(name: str) -> str | None:
    """What an input of a name holds; None if that is unknown, or the past."""
    return next((role for role, names in ROLES.items() if name in names), None)


@dataclass(frozen=True)
class PastForm:
    """How to compile a language model so that it keeps its past: `state=` and `dims=`."""

    state: dict[str, str]
    dims: dict[str, int | str | tuple[int, int]]

    @staticmethod
    def of(
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        context: int,
        head_size: int | None = None,
    ) -> PastForm:
        """The form of a model with these inputs and outputs; an error if it has no such form.

        The size of a head is needed where the model leaves it open.
        """
        by_role = {role: info for info in inputs if (role := role_of(info.name)) is not None}
        rest = [info for info in inputs if role_of(info.name) is None]
        pairs = find_pairs(rest, outputs)
        others = [info for info in rest if info.name not in {taken.name for taken, _ in pairs}]
        tokens = by_role.get("tokens")
        if tokens is None or not pairs or others:
            raise no_language_model(inputs, outputs, others)
        state = {taken.name: given.name for taken, given in pairs}
        dims = _dims(by_role, tokens, pairs, context)
        width = (pairs[0][0].shape or (None,))[-1]
        if isinstance(width, str) and head_size is not None:
            dims[width] = head_size
        return PastForm(state, dims)


def find_pairs(
    inputs: Iterable[TensorInfo], outputs: Sequence[TensorInfo]
) -> list[tuple[TensorInfo, TensorInfo]]:
    """Inputs that are the past, each with the output that it is in the next run.

    They are called alike but for words such as "past" and "present", and have the same type but
    for one extent.
    """
    by_words: dict[tuple[str, ...], list[TensorInfo]] = {}
    for info in outputs:
        by_words.setdefault(_words(info.name), []).append(info)
    found = []
    for info in inputs:
        alike = [each for each in by_words.get(_words(info.name), ()) if _may_become(info, each)]
        if len(alike) == 1:
            found.append((info, alike[0]))
    return found


def _words(name: str) -> tuple[str, ...]:
    words = re.split(r"[._/:\-]+", _PHRASES.sub(r"\1", name))
    return tuple(word for word in words if word and word not in TIMES)


def _may_become(past: TensorInfo, present: TensorInfo) -> bool:
    if past.dtype is None or past.shape is None or len(past.shape) < 3 or not past.dtype.is_float:
        return False
    if present.shape is None or present.dtype is None:  # an output may leave it open
        return True
    pairs = zip(past.shape, present.shape, strict=False)
    numbers_agree = all(
        one == other for one, other in pairs if isinstance(one, int) and isinstance(other, int)
    )
    is_alike = past.dtype == present.dtype and len(past.shape) == len(present.shape)
    return is_alike and numbers_agree


def _dims(
    by_role: dict[str, TensorInfo],
    tokens: TensorInfo,
    pairs: Sequence[tuple[TensorInfo, TensorInfo]],
    context: int,
) -> dict[str, int | str | tuple[int, int]]:
    """What every dynamic dimension is: one sequence, a chunk of it, a past, or both together."""
    batch, chunk = (*(tokens.shape or ()), None, None)[:2]
    taken, given = pairs[0]
    dims: dict[str, int | str | tuple[int, int]] = {}
    past = (taken.shape or (None, None))[-2]
    present = (given.shape or (None, None))[-2]
    if isinstance(batch, str):
        dims[batch] = 1
    if isinstance(chunk, str):
        dims[chunk] = (1, min(CHUNK, context))
    if isinstance(past, str):
        dims[past] = context if past == present else (0, context - 1)
    both = (by_role["mask"].shape or (None,))[-1] if "mask" in by_role else None
    if isinstance(both, str) and both.isidentifier() and both not in dims:
        dims[both] = f"{past} + {chunk}"
    return dims


def no_language_model(
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    unknown: Sequence[TensorInfo] = (),
) -> UnsupportedError:
    """The error about a model from which no text can be generated."""
    listed = ", ".join(info.name for info in unknown[:4])
    reason = (
        f": it is unknown what {listed} may be" if listed and len(inputs) > len(unknown) else ""
    )
    return UnsupportedError(
        f"the model is not a language model that keeps its past{reason}",
        excerpt=[
            f"inputs  {', '.join(map(str, inputs[:6]))}{' …' if len(inputs) > 6 else ''}",
            f"outputs {', '.join(map(str, outputs[:6]))}{' …' if len(outputs) > 6 else ''}",
        ],
        help="give a GGUF file, a folder of Hugging Face, or ONNX with input_ids, past_key_values "
        "and present, exported with its cache",
    )
