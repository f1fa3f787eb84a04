"""Machinery of passes: rewrite rules, pipelines with checked order, instruments."""

from afterglow.passes.base import AnyPass, Pass, ProgramPass, Property
from afterglow.passes.instruments import Dump, Instrument, StopAfter, Timing, VerifyEach
from afterglow.passes.pipeline import Pipeline, ProgramPipeline
from afterglow.passes.rewrite import Replacement, RewritePass, Rule, rewrite

__all__ = [
    "AnyPass",
    "Dump",
    "Instrument",
    "Pass",
    "Pipeline",
    "ProgramPass",
    "ProgramPipeline",
    "Property",
    "Replacement",
    "RewritePass",
    "Rule",
    "StopAfter",
    "Timing",
    "VerifyEach",
    "rewrite",
]
