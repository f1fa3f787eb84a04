"""Which kernel computes a step: plans by estimates, and the choice between them."""

from __future__ import annotations

from afterglow.backends.cpu.codegen.control import is_control_flow, plan_control
from afterglow.backends.cpu.codegen.generate import HOST, WHOLE_ON_HOST, host_reason
from afterglow.backends.cpu.codegen.write import can_fuse, can_write, is_left_to_host, plans_for
from afterglow.backends.cpu.target import Target
from afterglow.backends.job import Job
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

    def plans(self, step: OpInstr | Stack, *, exact: bool) -> list[KernelPlan]:
        """The plans for a step that the policy admits, the best first; none if it is lowered."""
        plans = self.estimated(step, exact=exact)
        if self.policy.least_workspace:
            return sorted(plans, key=lambda plan: plan.workspace_bytes)[:1]
        picked = self.policy.variants.get(Job.of(step).key) if self.policy.variants else None
        return [plan for plan in plans if plan.variant == picked] or plans

    def estimated(self, step: OpInstr | Stack, *, exact: bool) -> list[KernelPlan]:
        """All plans for a step, the best by its estimate first."""
        job = Job.of(step)
        if job.is_empty:
            return [NOTHING]
        if is_control_flow(step):  # what its bodies need is not in the key
            return [HOST if host_reason(step) else plan_control(step)]
        key = job.key, exact
        if key not in self._known:
            self._known[key] = self._make(step, job, exact=exact)
        return self._known[key]

    def _make(self, step: OpInstr | Stack, job: Job, *, exact: bool) -> list[KernelPlan]:
        policy = self.policy.for_job(is_exact=exact)
        if isinstance(step, Stack):
            return plans_for(job, self.target, policy) if can_fuse(job) else []
        if is_left_to_host(step.op):
            return [WHOLE_ON_HOST]
        return plans_for(job, self.target, policy) if can_write(job) else [HOST]
