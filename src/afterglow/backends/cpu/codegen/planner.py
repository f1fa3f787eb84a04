"""Which kernel computes a step: plans by estimates, and the choice between them."""

from __future__ import annotations

from afterglow.backends.cpu.codegen.control import is_control_flow, plan_control
from afterglow.backends.cpu.codegen.generate import host_reason
from afterglow.backends.cpu.codegen.write import can_fuse, can_write, plans_for
from afterglow.backends.cpu.micro.job import Job
from afterglow.backends.cpu.target import Target
from afterglow.backends.policy import Policy
from afterglow.instr import KernelPlan, OpInstr, Stack

NOTHING = KernelPlan("nothing")
"""The plan of a step whose results are empty."""


class Planner:
    """Plans for steps on a target, within a policy; those of equal jobs are made once."""

    def __init__(self, target: Target, policy: Policy) -> None:
        self.target = target
        self.policy = policy
        self._known: dict[tuple[str, bool], list[KernelPlan]] = {}

    def plan(self, step: OpInstr | Stack, *, exact: bool) -> KernelPlan | None:
        """The plan that the policy chooses, or the one with the least estimate; or None."""
        plans = self.plans(step, exact=exact)
        if not plans:
            return None
        if self.policy.least_workspace:
            return min(plans, key=lambda plan: plan.workspace_bytes)
        picked = self.policy.picks.get(Job.of(step).key) if self.policy.picks else None
        return next((plan for plan in plans if plan.variant == picked), plans[0])

    def plans(self, step: OpInstr | Stack, *, exact: bool) -> list[KernelPlan]:
        """All plans for a step, the best by its estimate first; none if the host must run it."""
        job = Job.of(step)
        if job.is_empty:
            return [NOTHING]
        if is_control_flow(step):
            return [] if host_reason(step) else [plan_control(step)]
        key = job.key, exact
        if key not in self._known:
            policy = self.policy.for_job(is_exact=exact)
            fits = can_fuse(job) if isinstance(step, Stack) else can_write(job)
            self._known[key] = plans_for(job, self.target, policy) if fits else []
        return self._known[key]
