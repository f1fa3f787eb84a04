"""How fast a device is: the figures that turn the steps of a planned program into seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from typing import Any

from afterglow.runtime.device import DeviceInfo
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

OTHER = "other"
"""The op whose rate counts for those that were not measured."""


@dataclass(frozen=True)
class MemoryLevel:
    """Memory that a step works in, as far as all that is used fits: a cache, or all of it."""

    nbytes: int
    bandwidth: float
    """Bytes a second that steps read and write there."""


@dataclass(frozen=True)
class Rates:
    """What a device needs for work of each kind, measured with as many threads as it has."""

    flops: float
    """Floating-point operations a second of the fastest products of f32."""
    levels: tuple[MemoryLevel, ...]
    """From the smallest to the largest; what exceeds the last is as fast as the last."""
    read_levels: tuple[MemoryLevel, ...] = ()
    """The same for constants, which are only read; those above if there are none."""
    products: Mapping[str, float] = field(default_factory=dict)
    """FLOPs a second by kind of kernel: op/elements/algorithm, such as conv/f32/winograd. Behind it
    may be /depthwise, /constant for constant weights, and /narrow for few columns."""
    elements: Mapping[str, float] = field(default_factory=dict)
    """Elements a second that ops compute which are no products, by mnemonic; and for those that
    were not measured, by the family of ops, such as `reduction/*`."""
    step_seconds: float = 0.0
    """What every instruction takes besides its work."""
    run_seconds: float = 0.0
    """What every run takes besides its instructions."""
    host_step_seconds: float = 0.0
    """What an instruction takes that the host runs, besides moving its operands."""
    transfer_seconds: float = 0.0
    """What moving anything between the host's memory and the device takes at least."""
    transfer_bandwidth: float = math.inf
    """Bytes a second between the host's memory and the device; infinite if they are one."""
    is_stated: bool = False
    """Whether nothing was measured: kernels take what their plans cost, at `flops`."""

    @staticmethod
    def stated(info: DeviceInfo) -> Rates:
        """The rates of a device that says how fast it is: every kernel costs what its plan says."""
        return Rates(
            flops=info.flops,
            levels=(MemoryLevel(info.memory_bytes, info.bandwidth),),
            step_seconds=info.launch_seconds,
            transfer_seconds=info.transfer_latency,
            transfer_bandwidth=info.transfer_bandwidth,
            is_stated=True,
        )

    def described(self, info: DeviceInfo) -> DeviceInfo:
        """What a device is, with these rates."""
        return replace(
            info,
            bandwidth=self.levels[-1].bandwidth,
            flops=self.flops,
            transfer_bandwidth=self.transfer_bandwidth,
            transfer_latency=self.transfer_seconds,
            launch_seconds=self.step_seconds,
        )

    def product_rate(self, kind: str) -> float:
        """FLOPs a second of a kind of kernel; of those most like it if it was not measured."""
        if kind in self.products:
            return self.products[kind]
        words = kind.split("/")
        for count in range(len(words), 0, -1):
            prefix = words[:count]
            found = [
                rate for name, rate in self.products.items() if name.split("/")[:count] == prefix
            ]
            if found:
                return math.exp(sum(map(math.log, found)) / len(found))
        return self.flops

    def element_rate(self, *names: str) -> float:
        """Elements a second of the first of some names that was measured: an op, its family."""
        known = (self.elements[name] for name in (*names, OTHER) if name in self.elements)
        return next(known, math.inf)

    def bandwidth(self, nbytes: float) -> float:
        """Bytes a second of operands and results that are so many bytes."""
        return _bandwidth(self.levels, nbytes)

    def read_bandwidth(self, nbytes: float) -> float:
        """Bytes a second of constants that are used again and again, with so many bytes."""
        return _bandwidth(self.read_levels or self.levels, nbytes)

    def transfer(self, nbytes: int) -> float:
        """Seconds to move some bytes between the host's memory and the device."""
        return self.transfer_seconds + nbytes / self.transfer_bandwidth

    def to_json(self) -> dict[str, Any]:
        """All figures, as JSON can hold them; an infinite one is null."""
        data = asdict(self)
        if math.isinf(self.transfer_bandwidth):
            data["transfer_bandwidth"] = None
        return data

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> Rates:
        """What `to_json` wrote; `UsageError` if it did not."""
        try:
            given = {each.name: data[each.name] for each in fields(Rates)}
            tables: dict[str, Any] = {
                "levels": _levels(given.pop("levels")),
                "read_levels": _levels(given.pop("read_levels")),
                **{name: _rates(given.pop(name)) for name in ("products", "elements")},
                "is_stated": bool(given.pop("is_stated")),
            }
            if not tables["levels"]:
                raise ValueError("there are no levels of memory")
            if given["transfer_bandwidth"] is None:
                given["transfer_bandwidth"] = math.inf
            tables |= {name: float(value) for name, value in given.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"these are not the rates of a device: {error!r}") from None
        return Rates(**tables)


def _levels(data: Sequence[Mapping[str, Any]]) -> tuple[MemoryLevel, ...]:
    return tuple(MemoryLevel(int(each["nbytes"]), float(each["bandwidth"])) for each in data)


def _rates(data: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(rate) for name, rate in data.items()}


def _bandwidth(levels: Sequence[MemoryLevel], nbytes: float) -> float:
    """The bandwidth for a working set: between two levels, in proportion to logarithms."""
    below = levels[0]
    for level in levels:
        if nbytes <= level.nbytes:
            return _between(below, level, nbytes)
        below = level
    return below.bandwidth


def _between(small: MemoryLevel, large: MemoryLevel, nbytes: float) -> float:
    if nbytes <= small.nbytes:
        return small.bandwidth
    share = math.log(nbytes / small.nbytes) / math.log(large.nbytes / small.nbytes)
    return small.bandwidth * math.pow(large.bandwidth / small.bandwidth, share)
