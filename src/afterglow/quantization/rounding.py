"""Rounding of the weights of a model by what its layers read on samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from afterglow.graph import Op
from afterglow.quantization.layers import round_layer, weight_of_rows, weight_rows
from afterglow.quantization.moments import InputMoments, row_errors
from afterglow.quantization.weights import QuantizedWeight
from afterglow.support.digest import digest_of_bytes, digest_of_texts
from afterglow.types import Array


class Rounding:
    """Rounds the weights of layers by what they read, which is found when it is first needed.

    What was rounded is remembered, so that other versions of a model have the same integers.
    """

    def __init__(self, collect: Callable[[], Mapping[str, InputMoments]]) -> None:
        self._collect = collect
        self._moments: Mapping[str, InputMoments] | None = None
        self._known: dict[str, QuantizedWeight] = {}
        self._factors: dict[str, Array] = {}
        self._means: dict[str, Array] = {}
        """What layers read on average, as far as their weights were rounded."""

    @property
    def moments(self) -> Mapping[str, InputMoments]:
        """What layers read, by their names."""
        if self._moments is None:
            self._moments = self._collect()
        return self._moments

    def release(self) -> None:
        """Forget what layers read, which takes much memory; it can be found again."""
        self._moments = None

    def rounded(
        self,
        names: Sequence[str],
        op: Op,
        weight: Array,
        nearest: QuantizedWeight,
        *,
        divided: Array | None = None,
        centred: bool = False,
    ) -> QuantizedWeight:
        """The weight of layers of some names, rounded by what the first known of them reads.

        It stays as it is if none is known. `divided` is what the channels of their input were
        divided by since. If `centred`, what rounding adds to all results alike does not count.
        """
        zeros = () if nearest.offsets is None else (nearest.offsets,)
        key = _key([*names, str(centred)], weight, nearest.scales, *zeros)
        if key not in self._known:
            seen = self._seen(names, weight_rows(op, weight))
            if seen is not None and divided is not None:
                seen = seen.divided(divided)
            if seen is None:
                return nearest
            self._known[key] = round_checked(op, weight, nearest, seen, centred=centred)
            self._means[names[0]] = seen.mean
        return self._known[key]

    def remembered(
        self, names: Sequence[str], arrays: Sequence[Array], find: Callable[[], Array]
    ) -> Array:
        """What was found for layers and their weights before, or is found now."""
        key = _key(names, *arrays)
        if key not in self._factors:
            self._factors[key] = find()
        return self._factors[key]

    def mean_error(self, name: str, op: Op, difference: Array) -> Array | None:
        """What a difference of the weight of a layer adds to its results on average, a channel.

        None if the layer was not rounded.
        """
        mean = self._means.get(name)
        if mean is None:
            return None
        found = np.einsum("grd,gd->gr", weight_rows(op, difference), mean)
        return np.asarray(found.ravel(), np.float32)

    def _seen(self, names: Sequence[str], rows: Array) -> InputMoments | None:
        """What the first known layer reads, if it is as deep as these rows, and read enough."""
        found = (self.moments[name] for name in names if name in self.moments)
        fitting = (seen for seen in found if (seen.groups, seen.depth) == rows.shape[::2])
        return next((seen for seen in fitting if seen.is_enough), None)


def round_checked(
    op: Op, weight: Array, nearest: QuantizedWeight, seen: InputMoments, *, centred: bool = False
) -> QuantizedWeight:
    """The weight of a layer, rounded by what it reads where that helps.

    Rows that one half of the runs rounds are compared, on the other half, with the nearest
    integers: where these have no more error they stay, and all runs round the other rows.
    If `centred`, the mean error of a row does not count, as for a bias that takes it back.
    """
    tried = round_layer(op, weight, nearest, seen.half(0, centred=centred), sweeps=0)
    unseen = seen.half(1, centred=centred)
    before, after = (
        row_errors(weight_rows(op, x.dequantized() - weight), unseen) for x in (nearest, tried)
    )
    helps = (after < before)[..., None]
    if not helps.any():
        return nearest
    final = round_layer(op, weight, nearest, seen.whole(centred=centred))
    rows = [weight_rows(op, x.stored) for x in (final, nearest)]
    stored = weight_of_rows(op, np.where(helps, *rows), weight.shape)
    return replace(nearest, stored=stored)


def _key(names: Sequence[str], *arrays: Array) -> str:
    """What tells apart all that may be rounded."""
    digests = (digest_of_bytes(np.ascontiguousarray(x).view(np.uint8).data) for x in arrays)
    return digest_of_texts([*names, *digests])
