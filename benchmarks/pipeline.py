"""How many more requests a second a pipeline over two one-core devices runs than one of them.

    python -m benchmarks.pipeline [--layers 8] [--width 512] [--requests 60] [--trials 5]

The model is a chain of equal matrix products, of which each device has a half. Trials of both ways
take turns, and the best of each counts, because other processes may disturb one.
"""

from __future__ import annotations

from afterglow import ops  # noqa: F401  for the parser
from afterglow.runtime.logical_device import LogicalDevice

DEVICES = (LogicalDevice("cpu:0", threads=1), LogicalDevice("cpu:1", threads=1))
