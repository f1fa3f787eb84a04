"""Benchmarks of a model in several engines, which take turns in separate processes."""

from afterglow.report.bench.compare import BenchPlan, compare, compare_streams
from afterglow.report.bench.engines import PEERS, pip_words
from afterglow.report.bench.measurement import Measurement

__all__ = ["PEERS", "BenchPlan", "Measurement", "compare", "compare_streams", "pip_words"]
