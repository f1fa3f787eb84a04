"""Several algorithms for one job, of which the code chooses one by the extents of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Storage
from afterglow.instr.kernel_plan import Setting
from afterglow.types.extent import Dim, bind_extent, dims_of, smaller_extent

SAMPLES = {1: 33, 2: 9}
"""Places in the range of a dimension that are tried, by the number of dimensions."""
FEW_SAMPLES = 5
"""The same, of more dimensions."""


REGRET = 1.15
"""How much longer than the fastest algorithm a run may take by the estimate, to have less code."""

CHOICE = 0.95
"""The cost of code that chooses, by the least at the largest extents: it gains at others."""


def fewest_choices(costs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The fewest of some choices, such that one is nearly the best in each run, given its costs."""
    numbers = range(len(costs[0]))
    for size in numbers[1:]:
        for kept in combinations(numbers, size):
            if all(min(here[n] for n in kept) <= REGRET * min(here) for here in costs):
                return kept
    return tuple(numbers)


def where_least(costs: Sequence[int]) -> list[int]:
    """For each of some costs, of extents too: 1 where it is the first of the least, else 0."""
    used, least = [1], costs[0]
    for cost in costs[1:]:
        less = is_less(cost, least)
        used, least = [*(each * (1 - less) for each in used), less], smaller_extent(cost, least)
    return used


def is_less(first: int, second: int) -> int:
    """1 where an extent is less than another, else 0; neither may be negative."""
    return smaller_extent(1, second // (first + 1))


def samples_of(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """What some extents are in different runs: at the ends of the ranges, and evenly between."""
    dims = dims_of(*extents)
    places = SAMPLES.get(len(dims), FEW_SAMPLES)
    for drawn in product(*(_values(dim, places) for dim in dims)):
        run = {dim.name: value for dim, value in zip(dims, drawn, strict=True)}
        yield tuple(bind_extent(extent, run) for extent in extents)


def _values(dim: Dim, places: int) -> list[int]:
    """Values of a dimension, evenly from its least to its largest."""
    steps = (dim.high - dim.low) // dim.step
    shares = {steps * place // (places - 1) for place in range(places)}
    return [dim.low + share * dim.step for share in sorted(shares)]


def chosen_by_extents(algorithms: Sequence[Algorithm], used: Sequence[int]) -> Algorithm:
    """One algorithm that is one of several in each run: where its extent of `used` is 1, not 0."""

    def write(k: Kernel) -> None:
        for algorithm, where in zip(algorithms, used, strict=True):
            with k.where(where):
                algorithm.write(k)

    return Algorithm(
        "-or-".join(dict.fromkeys(algorithm.name for algorithm in algorithms)),
        CHOICE * min(algorithm.cost for algorithm in algorithms),
        write,
        _all_needs([algorithm.needs for algorithm in algorithms]),
        _all_settings(algorithms),
        is_exact=all(algorithm.is_exact for algorithm in algorithms),
        waits=max(algorithm.waits for algorithm in algorithms),
        weight_growth=sum(algorithm.weight_growth for algorithm in algorithms),
    )


def _all_needs(needs: Sequence[KernelNeeds]) -> KernelNeeds:
    """Memory that is large enough for each."""
    return KernelNeeds(
        _largest(each.workspace for each in needs),
        _largest(each.scratch for each in needs),
        tuple(sorted({number for each in needs for number in each.packed})),
    )


def _largest(storages: Iterable[Mapping[str, Storage]]) -> dict[str, Storage]:
    """Of each name the largest memory."""
    found: dict[str, Storage] = {}
    for each in storages:
        for name, storage in each.items():
            before = found.get(name, storage)
            found[name] = max(before, storage, key=lambda storage: storage.nbytes)
    return found


def _all_settings(algorithms: Sequence[Algorithm]) -> dict[str, Setting]:
    """The settings of all; numbers of the same name as a tuple."""
    found: dict[str, list[Setting]] = {}
    for algorithm in algorithms:
        for name, setting in algorithm.settings.items():
            found.setdefault(name, []).append(setting)
    return {name: _together(settings) for name, settings in found.items()}


def _together(settings: Sequence[Setting]) -> Setting:
    numbers = [n for n in settings if isinstance(n, int)]
    return settings[0] if len(numbers) < len(settings) else tuple(numbers)
