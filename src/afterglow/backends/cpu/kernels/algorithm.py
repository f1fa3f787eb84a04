"""Algorithms for a job: what each costs and needs, and the function that writes its kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from afterglow.backends.cpu.micro.cost import waiting
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds
from afterglow.backends.policy import Policy
from afterglow.instr import KernelPlan
from afterglow.instr.kernel_plan import Setting
from afterglow.support.lazy_dataclass import dataclass

Writer = Callable[[Kernel], None]


@dataclass(frozen=True, eq=False)
class Algorithm:
    """An algorithm for a job: its cost, its needs, and the function that writes its kernel."""

    name: str
    cost: float
    """An estimate, in FLOPs that take as long."""
    write: Writer
    needs: KernelNeeds = field(default_factory=KernelNeeds)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    is_exact: bool = True
    """Whether sums are formed as they are defined, without saving multiplications."""
    waits: int = 0
    """How often threads wait for each other between its phases."""
    weight_growth: int = 0
    """Bytes that packed weights take besides those of the model's own."""

    def plan(self, extra_cost: float = 0.0) -> KernelPlan:
        """The plan that says so; `extra_cost` is that of the steps around the anchor."""
        return KernelPlan(
            self.name,
            self.settings,
            self.cost + extra_cost,
            {name: storage.nbytes for name, storage in self.needs.workspace.items()},
            sum(storage.nbytes for storage in self.needs.scratch.values()),
            self.needs.packed,
            self.needs.halo,
            weight_growth=self.weight_growth,
        )

    @property
    def shared_cost(self) -> float:
        """What it is compared by: the cost on one thread, and some of what many lose by waiting."""
        return self.cost + waiting(self.waits)

    def is_allowed(self, policy: Policy) -> bool:
        """Whether the user's constraints admit it."""
        if policy.exact and not self.is_exact:
            return False
        return not (policy.small_weights and self.weight_growth > 0)

    def follows(self, plan: KernelPlan) -> bool:
        """Whether a plan asks for it."""
        return self.name == plan.algorithm and dict(self.settings) == dict(plan.settings)


def by_cost(preferred: list[Algorithm], others: list[Algorithm]) -> list[Algorithm]:
    """Two lists as one: first the whole list whose first algorithm is cheaper."""
    if preferred and (not others or preferred[0].shared_cost < others[0].shared_cost):
        return [*preferred, *others]
    return [*others, *preferred]


def with_few(many: Algorithm, few: Algorithm) -> Algorithm:
    """An algorithm for many rows, with another one for few in the same kernel."""

    def write(k: Kernel) -> None:
        few.write(k)
        many.write(k)

    scratch = {**few.needs.scratch, **many.needs.scratch}
    workspace = {**few.needs.workspace, **many.needs.workspace}
    needs = replace(many.needs, scratch=scratch, workspace=workspace)
    exact = many.is_exact and few.is_exact
    return replace(many, write=write, needs=needs, is_exact=exact)
