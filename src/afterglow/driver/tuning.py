"""Tuning: plans of kernels are measured, and the winners remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.backends.capabilities import Choice, PlanProgram, Tuning
from afterglow.backends.policy import Policy
from afterglow.driver.cache import CompileCache, digest_of_texts
from afterglow.driver.options import Options
from afterglow.runtime.device import LoadOptions


def tuned_policy(backend: Tuning, plan: PlanProgram, options: Options) -> Policy:
    """The policy of the options, with the fastest variant of each kernel that has several.

    `plan` plans the program within a policy. What was not measured before is measured for about as
    many seconds as the options give.
    """
    cache = None if options.cache is None else CompileCache(options.cache)
    found = backend.choices(plan(options.policy))
    choices = [choice for choice in found if len(choice.plans) > 1]
    keys = {choice.key: _cache_key(backend, choice, options) for choice in choices}
    known = {} if cache is None else _remembered(choices, keys, cache)
    new = [choice for choice in choices if choice.key not in known]
    if new:
        backend.measure(plan, new, LoadOptions(options.threads), options.tune or 0.0)
    if cache is not None:
        for choice in new:
            cache.winners.put(keys[choice.key], choice.best.encode())
    variants = {**known, **{choice.key: choice.best for choice in new}}
    return replace(options.policy, variants=dict(sorted(variants.items())))


def _remembered(
    choices: Sequence[Choice], keys: dict[str, str], cache: CompileCache
) -> dict[str, str]:
    """The winners of earlier measurements, by the keys of kernels."""
    winners = ((choice.key, cache.winners.get(keys[choice.key])) for choice in choices)
    return {key: winner.decode() for key, winner in winners if winner is not None}


def _cache_key(backend: Tuning, choice: Choice, options: Options) -> str:
    """What a winner is remembered under: kernel, target, and between whom it was decided."""
    variants = [plan.variant for plan in choice.plans]
    target = repr(backend.target)
    return digest_of_texts([choice.key, target, str(options.threads), *variants])
