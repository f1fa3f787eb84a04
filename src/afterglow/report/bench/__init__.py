"""Timing a model on several engines, which take turns in processes of their own."""

from afterglow.report.bench.compare import Plan, compare
from afterglow.report.bench.engines import PEERS, pip_words
from afterglow.report.bench.measurement import Measurement

__all__ = ["PEERS", "Measurement", "Plan", "compare", "pip_words"]
