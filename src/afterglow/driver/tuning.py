"""Tuning: plans of kernels are tried, and the winners remembered."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.tuning import Choice, PlanProgram, choices_of, measure
from afterglow.backends.policy import Policy
from afterglow.driver.cache import CompileCache, digest_of_texts
from afterglow.driver.kernel_cache import caching_compiler
from afterglow.driver.options import Options


def tuned_policy(plan: PlanProgram, options: Options) -> Policy:
    """The policy of the options, with the fastest variant picked for each kernel that has several.

    `plan` plans the program within a policy. What was not tried before is tried for about as many
    seconds as the options give.
    """
    target = Target.of(options.target)
    cache = None if options.cache is None else CompileCache(options.cache)
    found = choices_of(plan(options.policy), target, options.policy)
    choices = [choice for choice in found if len(choice.plans) > 1]
    known = {} if cache is None else _remembered(choices, options, cache)
    new = [choice for choice in choices if choice.job.key not in known]
    if new:
        measure(
            plan,
            new,
            target,
            options.policy,
            threads=options.threads,
            seconds=options.tune or 0.0,
            compiled=caching_compiler(options.cache),
        )
    if cache is not None:
        for choice in new:
            cache.winners.put(_key(choice, options), choice.best.encode())
    picks = {**known, **{choice.job.key: choice.best for choice in new}}
    return replace(options.policy, picks=dict(sorted(picks.items())))


def _remembered(choices: list[Choice], options: Options, cache: CompileCache) -> dict[str, str]:
    """The winners of earlier trials, by the keys of jobs."""
    found = {}
    for choice in choices:
        winner = cache.winners.get(_key(choice, options))
        if winner is not None:
            found[choice.job.key] = winner.decode()
    return found


def _key(choice: Choice, options: Options) -> str:
    """What a winner is kept under: the job, the machine, and between whom it was decided."""
    names = [plan.variant for plan in choice.plans]
    target = repr(Target.of(options.target))
    return digest_of_texts([choice.job.key, target, str(options.threads), *names])
