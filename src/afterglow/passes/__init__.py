"""Machinery of passes: rewrite rules, pipelines with checked order, instruments."""

from afterglow.passes.base import Pass, Property
from afterglow.passes.instruments import Dump, Instrument, StopAfter, Timing, VerifyEach
from afterglow.passes.pipeline import Pipeline, UntilSettled
from afterglow.passes.rewrite import Replacement, RewritePass, Rule, rewrite

__all__ = [
    "Dump",
    "Instrument",
    "Pass",
    "Pipeline",
    "Property",
    "Replacement",
    "RewritePass",
    "Rule",
    "StopAfter",
    "Timing",
    "UntilSettled",
    "VerifyEach",
    "rewrite",
]
